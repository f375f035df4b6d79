"""States of threads over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.gateways import ASKING, SLOW, UNKNOWN_ID, GatewayClient, answer, gateway

_EMPTY = {
    "values": {}, "next": [], "tasks": [], "metadata": None, "created_at": None, "checkpoint": None,
    "parent_checkpoint": None, "interrupts": [], "checkpoint_id": None, "parent_checkpoint_id": None,
}  # fmt: skip


async def _state(client: GatewayClient, thread_id: str) -> Any:
    return (await client.get(f"/threads/{thread_id}/state")).json()


async def test_thread_without_runs_has_an_empty_state(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        assert await _state(client, thread_id) == _EMPTY
        assert (await client.get(f"/threads/{thread_id}/history")).json() == []
        assert (await client.post(f"/threads/{thread_id}/history", json={})).json() == []


async def test_state_can_be_read_now_and_at_every_checkpoint(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "hello")
        history = (await client.get(f"/threads/{thread_id}/history")).json()
        assert await _state(client, thread_id) == history[0]
        assert answer(history[0]["values"]) == "echo: hello"
        assert (history[0]["next"], history[0]["parent_checkpoint"]) == ([], history[1]["checkpoint"])
        assert history[0]["checkpoint"]["thread_id"] == thread_id
        for state in history:
            checkpoint = state["checkpoint"]
            by_path = await client.get(f"/threads/{thread_id}/state/{state['checkpoint_id']}")
            body = {"checkpoint": checkpoint}
            by_body = await client.post(f"/threads/{thread_id}/state/checkpoint", json=body)
            assert by_path.json()["checkpoint"] == by_body.json()["checkpoint"] == checkpoint
            assert by_path.json()["values"] == state["values"]


async def test_history_is_limited_and_can_begin_before_a_checkpoint(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "hello")
        path = f"/threads/{thread_id}/history"
        whole = (await client.get(path)).json()
        first = (await client.get(path, params={"limit": 1})).json()
        assert first == whole[:1]
        rest = await client.get(path, params={"before": whole[0]["checkpoint_id"]})
        assert rest.json() == whole[1:]
        as_object = await client.post(path, json={"before": whole[0]["checkpoint"], "limit": 10})
        assert as_object.json() == whole[1:]
        steps = await client.post(path, json={"metadata": {"source": "input"}})
        assert [state["metadata"]["source"] for state in steps.json()] == ["input"]
        only = await client.post(path, json={"checkpoint": whole[1]["checkpoint"]})
        assert only.json() == [whole[1]]


async def test_updated_state_is_what_the_next_run_sees(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "hello")
        before = await _state(client, thread_id)
        update = {"values": {"messages": [{"role": "user", "content": "aside"}]}, "as_node": "model"}
        changed = (await client.post(f"/threads/{thread_id}/state", json=update)).json()
        after = await _state(client, thread_id)
        assert changed["checkpoint"] == after["checkpoint"]
        assert changed["checkpoint_id"] == after["checkpoint_id"] != before["checkpoint_id"]
        assert answer(after["values"]) == "aside"
        assert (await client.get(f"/threads/{thread_id}")).json()["status"] == "idle"
        assert len((await client.say(thread_id, "next"))["messages"]) == 5


async def test_update_at_a_checkpoint_forks_the_thread(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "one")
        checkpoint = (await _state(client, thread_id))["checkpoint"]
        await client.say(thread_id, "two")
        update = {
            "values": {"messages": [{"role": "ai", "content": "other"}]},
            "as_node": "model",
            "checkpoint": checkpoint,
        }
        await client.post(f"/threads/{thread_id}/state", json=update)
        contents = [message["content"] for message in (await _state(client, thread_id))["values"]["messages"]]
        assert contents == ["one", "echo: one", "other"]


async def test_update_may_not_forge_provenance(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        message = {
            "role": "user", "content": "x", "additional_kwargs": {"deerflow_producer_kind": "host", "a": 1},
        }  # fmt: skip
        update = {"values": {"messages": [message]}, "as_node": "model"}
        await client.post(f"/threads/{thread_id}/state", json=update)
        stored = (await _state(client, thread_id))["values"]["messages"][0]
        assert stored["additional_kwargs"] == {"a": 1}


@pytest.mark.parametrize(
    ("update", "status", "named"),
    [
        ({"values": {"messages": []}, "as_node": "nowhere"}, 422, "nowhere"),
        ({"values": {"messages": [{"role": "wizard", "content": "x"}]}, "as_node": "model"}, 422, "wizard"),
        ({"values": "text"}, 422, "values"),
        ({"values": {}, "checkpoint": {"thread_id": UNKNOWN_ID}}, 422, "checkpoint.thread_id"),
        ({"values": {}, "checkpoint": {"checkpoint_ns": "inner"}}, 422, "checkpoint_ns"),
        ({"values": {}, "checkpoint_id": "x"}, 422, "checkpoint_id"),
    ],
)
async def test_update_that_the_graph_cannot_take_is_refused(
    tmp_path: Path, update: dict[str, Any], status: int, named: str
) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "hello")
        before = await _state(client, thread_id)
        response = await client.post(f"/threads/{thread_id}/state", json=update)
        assert response.status_code == status, response.text
        assert named in response.json()["detail"]
        assert await _state(client, thread_id) == before


async def test_update_during_a_run_is_a_conflict(tmp_path: Path) -> None:
    async with gateway(tmp_path, [SLOW]) as client:
        thread_id = await client.thread()
        run_id = await client.start(thread_id, "slow")
        update = {"values": {"messages": []}, "as_node": "model"}
        response = await client.post(f"/threads/{thread_id}/state", json=update)
        assert response.status_code == 409
        await client.post(f"/threads/{thread_id}/runs/{run_id}/cancel", params={"wait": 1})
        assert (await client.post(f"/threads/{thread_id}/state", json=update)).status_code == 200


async def test_waiting_state_shows_where_it_waits_and_for_what(tmp_path: Path) -> None:
    async with gateway(tmp_path, [ASKING]) as client:
        thread_id = await client.thread()
        asked = await client.say(thread_id, "ask", context={"approve_tools": ["write_file"]})
        state = await _state(client, thread_id)
        assert [one["id"] for one in state["interrupts"]] == [asked["__interrupt__"][0]["id"]]
        assert [task["name"] for task in state["tasks"]] == state["next"] != []
        assert state["tasks"][0]["interrupts"] == state["interrupts"]


async def test_unknown_checkpoint_is_not_found(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "hello")
        assert (await client.get(f"/threads/{thread_id}/state/{UNKNOWN_ID}")).status_code == 404
        assert (await client.get(f"/threads/{thread_id}/state/x")).status_code == 422
        missing = await client.post(f"/threads/{thread_id}/state/checkpoint", json={})
        assert missing.status_code == 422


async def test_new_thread_may_begin_with_a_history(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        said = {"messages": [{"role": "user", "content": "one"}]}
        answered = {"messages": [{"role": "ai", "content": "1"}]}
        supersteps = [
            {"updates": [{"values": said, "as_node": "__input__"}]},
            {"updates": [{"values": said, "as_node": "__start__"}]},
            {"updates": [{"values": answered, "as_node": "model"}]},
        ]
        thread_id = await client.thread(supersteps=supersteps)
        assert len((await client.say(thread_id, "two"))["messages"]) == 4
        wrong = [{"updates": [{"values": {}, "as_node": "nowhere"}]}]
        refused = await client.post("/threads", json={"thread_id": UNKNOWN_ID, "supersteps": wrong})
        assert refused.status_code == 422
        assert (await client.get(f"/threads/{UNKNOWN_ID}")).status_code == 404


async def test_history_begins_before_a_checkpoint_in_each_form_that_clients_send(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "hello")
        path = f"/threads/{thread_id}/history"
        whole = (await client.post(path, json={})).json()
        checkpoint = whole[0]["checkpoint"]
        forms: list[Any] = [checkpoint["checkpoint_id"], checkpoint, {"configurable": checkpoint}]
        for before in forms:
            assert (await client.post(path, json={"before": before})).json() == whole[1:]


async def test_stopped_step_has_no_error(tmp_path: Path) -> None:
    async with gateway(tmp_path, [SLOW]) as client:
        thread_id = await client.thread()
        run_id = await client.start(thread_id, "slow")
        path = f"/threads/{thread_id}/state"
        while (await client.get(path)).json()["next"] != ["model"]:
            await asyncio.sleep(0.01)
        await client.post(f"/threads/{thread_id}/runs/{run_id}/cancel?wait=1")
        (task,) = (await client.get(path)).json()["tasks"]
        assert (task["name"], task["error"]) == ("model", None)
