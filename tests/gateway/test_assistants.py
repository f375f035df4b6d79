"""Assistants over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import pytest
from support.gateways import UNKNOWN_ID, gateway

ID = str(uuid5(UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8"), "lead_agent"))


async def test_there_is_one_assistant_of_the_system(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        response = await client.post("/assistants/search", json={})
        (assistant,) = response.json()
        assert response.headers["x-pagination-total"] == "1"
        assert "x-pagination-next" not in response.headers
        assert (assistant["assistant_id"], assistant["graph_id"]) == (ID, "lead_agent")
        assert assistant["metadata"] == {"created_by": "system"}
        for name in (ID, "lead_agent"):
            assert (await client.get(f"/assistants/{name}")).json() == assistant
            versions = await client.post(f"/assistants/{name}/versions", json={})
            assert versions.json() == [assistant]


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ({"graph_id": "lead_agent"}, 1), ({"graph_id": "other"}, 0), ({"metadata": {"created_by": "me"}}, 0),
        ({"metadata": {"created_by": "system"}}, 1), ({"name": "LEAD"}, 1), ({"name": "x"}, 0),
    ],
)  # fmt: skip
async def test_assistants_are_found_by_what_they_are(tmp_path: Path, body: Any, count: int) -> None:
    async with gateway(tmp_path) as client:
        assert len((await client.post("/assistants/search", json=body)).json()) == count
        assert (await client.post("/assistants/count", json=body)).json() == count


async def test_graph_and_schemas_describe_the_lead_agent(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        for xray in ("true", "false", "2"):
            graph = (await client.get(f"/assistants/{ID}/graph", params={"xray": xray})).json()
            assert {"model", "tools"} <= {node["id"] for node in graph["nodes"]}
        schemas = (await client.get(f"/assistants/{ID}/schemas")).json()
        assert schemas["graph_id"] == "lead_agent"
        assert "messages" in schemas["state_schema"]["properties"]
        assert "model_name" in schemas["context_schema"]["properties"]
        assert (await client.get(f"/assistants/{ID}/subgraphs")).json() == {}


@pytest.mark.parametrize("path", ["", "/graph", "/schemas", "/subgraphs"])
async def test_other_assistants_are_unknown(tmp_path: Path, path: str) -> None:
    async with gateway(tmp_path) as client:
        assert (await client.get(f"/assistants/{UNKNOWN_ID}{path}")).status_code == 404
        wrong = await client.get(f"/assistants/nobody{path}")
        assert wrong.status_code == 422
        assert "lead_agent" in wrong.json()["detail"]


@pytest.mark.parametrize("xray", ["0", "-1", "x", "99"])
async def test_senseless_depth_is_refused(tmp_path: Path, xray: str) -> None:
    async with gateway(tmp_path) as client:
        assert (await client.get(f"/assistants/{ID}/graph", params={"xray": xray})).status_code == 422
