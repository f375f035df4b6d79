"""Commands of LangGraph's streaming protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.gateways import ASKING, ASSISTANT, SLOW, UNKNOWN_ID, gateway, said
from support.protocol import APPROVING, begin, command, following, of, statuses, told


async def test_interrupt_is_asked_and_answered(tmp_path: Path) -> None:
    async with gateway(tmp_path, [ASKING]) as client:
        thread_id = str(uuid4())
        await begin(client, thread_id, "ask", config=APPROVING)
        async with following(client, thread_id) as stream:
            asked = await told(stream)
            (request,) = of(asked, "input.requested")
            wrong = await command(client, thread_id, "input.respond", interrupt_id="0" * 32, response=1)
            response = {"decisions": [{"type": "approve"}]}
            given = {"interrupt_id": request["interrupt_id"], "namespace": [], "response": response}
            right = await command(client, thread_id, "input.respond", **given)
            answered = await told(stream, 2)
            again = await command(client, thread_id, "input.respond", **given)
    assert request["payload"]["action_requests"][0]["name"] == "write_file"
    assert (wrong["type"], wrong["error"]) == ("error", "no_such_interrupt")
    assert right["type"] == "success"
    assert again["error"] == "no_such_interrupt"
    assert statuses(answered) == ["running", "interrupted", "running", "completed"]
    assert of(answered, "values")[-1]["messages"][-1]["content"].startswith("written: created")


async def test_several_answers_come_in_one_command(tmp_path: Path) -> None:
    async with gateway(tmp_path, [ASKING]) as client:
        thread_id = str(uuid4())
        await begin(client, thread_id, "ask", config=APPROVING)
        async with following(client, thread_id) as stream:
            (request,) = of(await told(stream), "input.requested")
            response = {"decisions": [{"type": "reject", "message": "not today"}]}
            responses = [{"interrupt_id": request["interrupt_id"], "response": response}]
            none = await command(client, thread_id, "input.respond", responses=[])
            await command(client, thread_id, "input.respond", responses=responses)
            events = await told(stream, 2)
    assert none["error"] == "invalid_argument"
    assert "not today" in of(events, "values")[-1]["messages"][-1]["content"]


async def test_input_that_is_no_state_answers_what_waits(tmp_path: Path) -> None:
    async with gateway(tmp_path, [ASKING]) as client:
        thread_id = str(uuid4())
        await begin(client, thread_id, "ask", config=APPROVING)
        async with following(client, thread_id, ["lifecycle", "values"]) as stream:
            await told(stream)
            decisions = {"decisions": [{"type": "approve"}]}
            await command(client, thread_id, "run.start", assistant_id=ASSISTANT, input=decisions)
            events = await told(stream, 2)
    assert statuses(events)[-1] == "completed"


async def test_tree_of_a_run(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        none = await command(client, thread_id, "agent.getTree")
        run_id = await begin(client, thread_id, "hello")
        await client.get(f"/threads/{thread_id}/runs/{run_id}/join")
        tree = await command(client, thread_id, "agent.getTree")
        other = await command(client, thread_id, "agent.getTree", run_id=UNKNOWN_ID)
    assert (none["error"], other["error"]) == ("no_such_run", "no_such_run")
    assert tree["result"]["tree"] == {"namespace": [], "status": "completed", "graph_name": ASSISTANT}


@pytest.mark.parametrize(
    ("method", "params", "code", "named"),
    [
        ("state.get", {}, "unknown_command", "state.get"),
        ("run.start", {}, "invalid_argument", "assistant_id"),
        ("run.start", {"assistant_id": "nobody"}, "invalid_argument", "nobody"),
        ("run.start", {"assistant_id": UNKNOWN_ID}, "invalid_argument", UNKNOWN_ID),
        ("run.start", {"assistant_id": ASSISTANT, "input": 1}, "invalid_argument", "input"),
        (
            "run.start",
            {"assistant_id": ASSISTANT, "config": {"configurable": {"model_name": "x"}}},
            "invalid_argument",
            "model_name",
        ),
        (
            "run.start",
            {"assistant_id": ASSISTANT, "config": {"configurable": {"a": 1}}, "context": {"a": 2}},
            "invalid_argument",
            "context",
        ),
        (
            "run.start",
            {"assistant_id": ASSISTANT, "langsmith_tracer": {"project_name": "p"}},
            "invalid_argument",
            "langsmith_tracer",
        ),
        ("run.start", {"assistant_id": ASSISTANT, "multitaskStrategy": "x"}, "invalid_argument", "multitask"),
        ("input.respond", {}, "invalid_argument", "interrupt_id"),
        ("input.respond", {"interrupt_id": "x", "namespace": "y"}, "invalid_argument", "namespace"),
        ("agent.getTree", {"run_id": 1}, "invalid_argument", "run_id"),
    ],
)
async def test_command_that_cannot_be_carried_out_is_answered_in_the_protocols_terms(
    tmp_path: Path, method: str, params: dict[str, Any], code: str, named: str
) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        refused = await command(client, thread_id, method, **params)
        assert (refused["type"], refused["error"]) == ("error", code)
        assert named in refused["message"]
        assert (await client.get(f"/threads/{thread_id}/runs")).json() == []


async def test_fork_from_a_checkpoint(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "one")
        first = (await client.get(f"/threads/{thread_id}/state")).json()["checkpoint_id"]
        await client.say(thread_id, "two")
        config = {"configurable": {"checkpoint_id": first}}
        run_id = await begin(client, thread_id, "three", config=config)
        values = (await client.get(f"/threads/{thread_id}/runs/{run_id}/join")).json()
    assert [message["content"] for message in values["messages"]] == [
        "one", "echo: one", "three", "echo: three",
    ]  # fmt: skip


async def test_rejected_run_is_answered(tmp_path: Path) -> None:
    async with gateway(tmp_path, [SLOW]) as client:
        thread_id = str(uuid4())
        await begin(client, thread_id, "slow")
        params = {"assistant_id": ASSISTANT, "input": said("x")["input"], "multitask_strategy": "reject"}
        refused = await command(client, thread_id, "run.start", **params)
    assert (refused["error"], thread_id in refused["message"]) == ("invalid_argument", True)
