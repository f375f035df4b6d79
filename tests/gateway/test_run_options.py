"""What a request says about how its run is to go: where it stops by itself, and what it writes down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.gateways import ASKING, GatewayClient, answer, gateway, said

NOTHING_NEW = {**said("x"), "input": None}


async def _state(client: GatewayClient, thread_id: str) -> Any:
    return (await client.get(f"/threads/{thread_id}/state")).json()


async def _go_on(client: GatewayClient, thread_id: str) -> Any:
    return (await client.post(f"/threads/{thread_id}/runs/wait", json=NOTHING_NEW)).json()


@pytest.mark.parametrize(
    ("stops", "next_nodes"),
    [
        ({"interrupt_before": ["tools"]}, ["tools"]),
        ({"interrupt_before": "*"}, ["model"]),
        ({"interrupt_after": ["model"]}, ["tools"]),
        ({"interrupt_after": ["tools"]}, ["model"]),
    ],
    ids=str,
)
async def test_run_stops_at_nodes_and_the_next_one_goes_on(
    tmp_path: Path, stops: dict[str, Any], next_nodes: list[str]
) -> None:
    async with gateway(tmp_path, [ASKING]) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "ask", **stops)
        (run,) = (await client.get(f"/threads/{thread_id}/runs")).json()
        assert run["status"] == "interrupted"
        assert (await client.get(f"/threads/{thread_id}")).json()["status"] == "interrupted"
        assert (await _state(client, thread_id))["next"] == next_nodes
        assert answer(await _go_on(client, thread_id)).startswith("written: ")
        assert (await client.get(f"/threads/{thread_id}")).json()["status"] == "idle"


async def test_run_that_is_not_kept_at_each_step_leaves_one_checkpoint(tmp_path: Path) -> None:
    async with gateway(tmp_path, [ASKING]) as client:
        counts = {}
        for durability in ("exit", "sync", "async"):
            thread_id = await client.thread()
            assert answer(await client.say(thread_id, "ask", durability=durability)).startswith("written: ")
            history = (await client.post(f"/threads/{thread_id}/history", json={"limit": 50})).json()
            counts[durability] = len(history)
        assert counts == {"exit": 1, "sync": 5, "async": 5}


async def test_metadata_of_a_run_is_its_own(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread(metadata={"topic": "rivers"})
        await client.say(thread_id, "hello", metadata={"source_page": 3})
        (run,) = (await client.get(f"/threads/{thread_id}/runs")).json()
        assert run["metadata"]["source_page"] == 3
        thread = (await client.get(f"/threads/{thread_id}")).json()
        assert (thread["metadata"]["topic"], "source_page" in thread["metadata"]) == ("rivers", False)
