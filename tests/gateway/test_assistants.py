"""Assistants over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import pytest
from support.gateways import UNKNOWN_ID, GatewayClient, gateway, said, serving
from support.hosts import scripted_config

from deerflow.gateway.app import create_app

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
        ({"graph_id": "lead_agent"}, 1), ({"metadata": {"created_by": "me"}}, 0),
        ({"metadata": {"created_by": "system"}}, 1), ({"name": "LEAD"}, 1), ({"name": "x"}, 0),
    ],
)  # fmt: skip
async def test_assistants_are_found_by_what_they_are(tmp_path: Path, body: Any, count: int) -> None:
    async with gateway(tmp_path) as client:
        assert len((await client.post("/assistants/search", json=body)).json()) == count
        assert (await client.post("/assistants/count", json=body)).json() == count
        for path in ("search", "count"):
            assert (await client.post(f"/assistants/{path}", json={"graph_id": "other"})).status_code == 404


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


async def _create(client: GatewayClient, **fields: Any) -> dict[str, Any]:
    response = await client.post("/assistants", json={"graph_id": "lead_agent", **fields})
    assert response.status_code == 200, response.text
    assistant: dict[str, Any] = response.json()
    return assistant


async def test_own_assistant_has_what_was_given_and_defaults(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        plain = await _create(client)
        assert (plain["name"], plain["description"], plain["version"]) == ("Untitled", None, 1)
        assert (plain["config"], plain["context"], plain["metadata"]) == ({}, {}, {})
        full = await _create(
            client,
            assistant_id=UNKNOWN_ID, name="Quick", description="no subagents", metadata={"team": 7},
            context={"subagent_enabled": False}, config={"recursion_limit": 30},
        )  # fmt: skip
        assert full["context"] == {"subagent_enabled": False}
        assert full["config"] == {"recursion_limit": 30, "configurable": {"subagent_enabled": False}}
        assert (await client.get(f"/assistants/{UNKNOWN_ID}")).json() == full
        assert "user_id" not in full


async def test_known_id_is_a_conflict_unless_that_is_wanted(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        first = await _create(client, assistant_id=UNKNOWN_ID, name="first")
        body = {"graph_id": "lead_agent", "assistant_id": UNKNOWN_ID, "name": "second"}
        assert (await client.post("/assistants", json=body)).status_code == 409
        again = await client.post("/assistants", json={**body, "if_exists": "do_nothing"})
        assert again.json() == first


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        ({}, 422, "graph_id"),
        ({"graph_id": "other"}, 404, "other"),
        ({"graph_id": "lead_agent", "assistant_id": "x"}, 422, "UUID"),
        ({"graph_id": "lead_agent", "context": {"model_name": "gpt-99"}}, 422, "gpt-99"),
        (
            {"graph_id": "lead_agent", "context": {"goal": "a"}, "config": {"configurable": {"goal": "b"}}},
            400,
            "context",
        ),
        ({"graph_id": "lead_agent", "config": {"configurable": [1]}}, 422, "configurable"),
        ({"graph_id": "lead_agent", "name": ""}, 422, "name"),
    ],
)  # fmt: skip
async def test_senseless_assistants_are_refused(tmp_path: Path, body: Any, status: int, named: str) -> None:
    async with gateway(tmp_path) as client:
        response = await client.post("/assistants", json=body)
        assert response.status_code == status, response.text
        assert named in response.json()["detail"]
        assert (await client.post("/assistants/count", json={})).json() == 1


async def test_each_change_is_a_version_and_any_of_them_can_count(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        path = f"/assistants/{(await _create(client, name='a', metadata={'x': 1}))['assistant_id']}"
        second = (await client.patch(path, json={"name": "b", "metadata": {"y": 2}})).json()
        assert (second["version"], second["name"], second["metadata"]) == (2, "b", {"x": 1, "y": 2})
        await client.patch(path, json={"config": {"configurable": {"goal": "c"}}})
        versions = (await client.post(f"{path}/versions", json={})).json()
        assert [(v["version"], v["name"], v["context"]) for v in versions] == [
            (3, "b", {"goal": "c"}), (2, "b", {}), (1, "a", {}),
        ]  # fmt: skip
        filtered = await client.post(f"{path}/versions", json={"metadata": {"y": 2}, "limit": 1})
        assert [v["version"] for v in filtered.json()] == [3]
        old = (await client.post(f"{path}/latest", json={"version": 1})).json()
        assert (old["version"], old["name"], old["context"], old["metadata"]) == (1, "a", {}, {"x": 1})
        assert (await client.get(path)).json() == old
        assert (await client.patch(path, json={"name": "d"})).json()["version"] == 4
        assert (await client.post(f"{path}/latest", json={"version": 9})).status_code == 404
        assert (await client.post(f"{path}/latest", json={"version": 2**31})).status_code == 422


async def test_changes_at_the_same_moment_are_versions_of_their_own(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        path = f"/assistants/{(await _create(client))['assistant_id']}"
        patches = (client.patch(path, json={"metadata": {str(n): n}}) for n in range(10))
        assert {r.status_code for r in await asyncio.gather(*patches)} == {200}
        assistant = (await client.get(path)).json()
        assert (assistant["version"], len(assistant["metadata"])) == (11, 10)


async def test_system_assistant_is_immutable_and_own_ones_can_go(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        for name in (ID, "lead_agent"):
            answers = [
                await client.patch(f"/assistants/{name}", json={"name": "mine"}),
                await client.delete(f"/assistants/{name}"),
                await client.post(f"/assistants/{name}/latest", json={"version": 1}),
            ]
            assert [answer.status_code for answer in answers] == [403] * 3
        own = (await _create(client))["assistant_id"]
        assert (await client.delete(f"/assistants/{own}")).status_code == 204
        assert (await client.delete(f"/assistants/{own}")).status_code == 404
        assert (await client.get(f"/assistants/{own}")).status_code == 404


async def test_run_begins_with_the_wishes_of_its_assistant(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        wishes = {"goal": "from the assistant", "subagent_enabled": False}
        own = await _create(
            client,
            context={**wishes, "__pregel_x": 1, "user_id": "root"},
            config={"recursion_limit": 40, "tags": ["a"]},
        )
        assert own["context"] == wishes
        thread_id, request = await client.thread(), {"goal": "from the request"}
        await client.say(thread_id, "hello", assistant_id=own["assistant_id"], context=request)
        (run,) = (await client.get(f"/threads/{thread_id}/runs")).json()
        assert run["assistant_id"] == own["assistant_id"]
        assert run["kwargs"]["context"] == {"goal": "from the request", "subagent_enabled": False}
        assert run["kwargs"]["config"] == {"recursion_limit": 40, "tags": ["a"]}
        thread = (await client.get(f"/threads/{thread_id}")).json()
        assert thread["metadata"]["assistant_id"] == own["assistant_id"]
        for assistant_id, status in ((own["assistant_id"], 200), (UNKNOWN_ID, 404)):
            stateless = await client.post("/runs/wait", json={**said("x"), "assistant_id": assistant_id})
            assert stateless.status_code == status


async def test_graph_of_an_assistant_is_that_of_its_wishes(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        own = await _create(client, context={"approve_tools": ["write_file"]})
        plain = (await client.get("/assistants/lead_agent/graph")).json()
        asking = (await client.get(f"/assistants/{own['assistant_id']}/graph")).json()
        assert len(asking["nodes"]) > len(plain["nodes"])


async def test_threads_go_with_their_assistant_where_that_is_asked_for(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        own = (await _create(client))["assistant_id"]
        kept, gone = await client.thread(), await client.thread()
        await client.say(kept, "hello")
        await client.say(gone, "hello", assistant_id=own)
        assert (await client.delete(f"/assistants/{own}", params={"delete_threads": True})).status_code == 204
        assert [(await client.get(f"/threads/{t}")).status_code for t in (kept, gone)] == [200, 404]


async def test_assistants_are_listed_in_order_and_by_page(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        for name in ("Beta", "alpha", "gamma"):
            await _create(client, name=name, metadata={"own": True})
        body = {"metadata": {"own": True}, "sort_by": "name", "sort_order": "asc", "limit": 2}
        first = await client.post("/assistants/search", json=body)
        assert [item["name"] for item in first.json()] == ["alpha", "Beta"]
        assert (first.headers["x-pagination-total"], first.headers["x-pagination-next"]) == ("3", "2")
        last = await client.post("/assistants/search", json={**body, "offset": 2, "select": ["name"]})
        assert last.json() == [{"name": "gamma"}]
        found = await client.post("/assistants/search", json={"name": "%"})
        assert found.json() == []


async def test_system_assistant_keeps_its_date(tmp_path: Path) -> None:
    app = create_app(scripted_config(tmp_path, database={"backend": "sqlite"}))
    made = []
    for _ in range(2):
        async with serving(app) as client:
            made.append((await client.get("/assistants/lead_agent")).json())
    assert made[0] == made[1]
