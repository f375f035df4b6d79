"""Runs on a thread, over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.gateways import (
    ASKING,
    ASSISTANT,
    FAILING,
    SLOW,
    UNKNOWN_ID,
    GatewayClient,
    answer,
    gateway,
    said,
)

ASSISTANT_ID = "bee7d354-5df5-5f26-a978-10ea053f620d"


async def test_background_run_is_recorded_and_found(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        body = said("hello", metadata={"mine": 1}, stream_mode=["values", "updates"])
        response = await client.post(f"/threads/{thread_id}/runs", json=body)
        run = response.json()
        path = f"/threads/{thread_id}/runs/{run['run_id']}"
        assert response.headers["content-location"] == path
        assert (run["status"], run["multitask_strategy"]) == ("pending", "enqueue")
        assert (run["assistant_id"], run["metadata"]["mine"]) == (ASSISTANT_ID, 1)
        assert run["kwargs"]["stream_mode"] == ["values", "updates"]
        assert answer((await client.get(f"{path}/join")).json()) == "echo: hello"
        assert (await client.get(path)).json()["status"] == "success"


async def test_second_turn_remembers_the_first(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "one")
        values = await client.say(thread_id, "two")
        assert [message["content"] for message in values["messages"]] == [
            "one", "echo: one", "two", "echo: two",
        ]  # fmt: skip


async def test_runs_of_a_thread_come_newest_first_and_by_status(tmp_path: Path) -> None:
    async with gateway(tmp_path, [FAILING]) as client:
        thread_id = await client.thread()
        for text in ("one", "fail", "two"):
            await client.say(thread_id, text)
        runs = (await client.get(f"/threads/{thread_id}/runs")).json()
        assert [run["status"] for run in runs] == ["success", "error", "success"]
        failed = (await client.get(f"/threads/{thread_id}/runs", params={"status": "error"})).json()
        assert [run["run_id"] for run in failed] == [runs[1]["run_id"]]
        page = await client.get(f"/threads/{thread_id}/runs", params={"limit": 1, "offset": 2})
        assert [run["run_id"] for run in page.json()] == [runs[2]["run_id"]]
        some = await client.get(f"/threads/{thread_id}/runs", params={"select": ["run_id", "status"]})
        assert set(some.json()[0]) == {"run_id", "status"}


async def test_failed_run_is_an_answer_that_says_so(tmp_path: Path) -> None:
    async with gateway(tmp_path, [FAILING]) as client:
        thread_id = await client.thread()
        result = await client.say(thread_id, "fail")
        assert set(result) == {"__error__"}
        assert "the model broke" in result["__error__"]["message"]
        assert (await client.get(f"/threads/{thread_id}")).json()["status"] == "error"
        run_id = (await client.get(f"/threads/{thread_id}/runs")).json()[0]["run_id"]
        joined = await client.get(f"/threads/{thread_id}/runs/{run_id}/join")
        assert joined.json() == result
        assert answer(await client.say(thread_id, "hello")) == "echo: hello"


async def test_run_that_asks_a_person_is_resumed_with_the_answer(tmp_path: Path) -> None:
    async with gateway(tmp_path, [ASKING]) as client:
        thread_id = await client.thread()
        context = {"approve_tools": ["write_file"]}
        asked = await client.say(thread_id, "ask", context=context)
        (interrupt,) = asked["__interrupt__"]
        assert interrupt["value"]["action_requests"][0]["name"] == "write_file"
        thread = (await client.get(f"/threads/{thread_id}")).json()
        assert thread["status"] == "interrupted"
        assert [[one["id"] for one in some] for some in thread["interrupts"].values()] == [[interrupt["id"]]]
        run_id = (await client.get(f"/threads/{thread_id}/runs")).json()[0]["run_id"]
        assert (await client.get(f"/threads/{thread_id}/runs/{run_id}/join")).json() == asked
        done = await client.post(
            f"/threads/{thread_id}/runs/wait",
            json={
                "assistant_id": ASSISTANT,
                "command": {"resume": {"decisions": [{"type": "approve"}]}},
                "context": context,
            },
        )
        assert answer(done.json()).startswith("written:")
        assert (await client.get(f"/threads/{thread_id}")).json()["interrupts"] == {}


ASKING_SLOWLY: dict[str, Any] = {
    "when": "^write slowly",
    "turns": [
        {"tool_calls": [{"name": "write_file", "args": {"path": "a.txt", "content": "x"}, "id": "call-1"}]},
        {"delay_seconds": 30, "text": "too late"},
    ],
}


async def test_unknown_thread_is_created_only_where_that_is_asked_for(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        refused = await client.post(f"/threads/{UNKNOWN_ID}/runs/wait", json=said("hello"))
        assert refused.status_code == 404
        made = await client.say(UNKNOWN_ID, "hello", if_not_exists="create")
        assert answer(made) == "echo: hello"


@pytest.mark.parametrize(
    ("fields", "status", "named"),
    [
        ({"assistant_id": "nobody"}, 422, "assistant_id"),
        ({"assistant_id": UNKNOWN_ID}, 404, UNKNOWN_ID),
        ({"assistant_id": None}, 422, "assistant_id"),
        ({"input": "hello"}, 422, "input"),
        ({"stream_mode": ["values", "tokens"]}, 422, "stream_mode"),
        ({"stream_mode": "colours"}, 422, "stream_mode"),
        ({"multitask_strategy": "all"}, 422, "multitask_strategy"),
        ({"webhook": "http://localhost/hook"}, 422, "webhook"),
        ({"feedback_keys": ["good"]}, 422, "feedback_keys"),
        ({"after_seconds": -1}, 422, "after_seconds"),
        ({"after_seconds": 1e12}, 422, "after_seconds"),
        ({"on_disconnect": "shrug"}, 422, "on_disconnect"),
        ({"durability": "maybe"}, 422, "durability"),
        ({"checkpoint_id": "x"}, 422, "checkpoint_id"),
        ({"checkpoint": {"thread_id": UNKNOWN_ID}}, 422, "checkpoint.thread_id"),
        ({"context": {"model_name": "gpt-99"}}, 422, "model_name"),
        ({"context": []}, 422, "context"),
        ({"config": {"configurable": {"model_name": "gpt-99"}}}, 422, "model_name"),
        (
            {"context": {"model_name": "scripted"}, "config": {"configurable": {"subagent_enabled": False}}},
            400,
            "configurable",
        ),
        ({"command": {"resume": 1, "bogus": 2}}, 422, "bogus"),
    ],
)
async def test_what_a_run_cannot_be_is_refused_by_name_and_leaves_nothing(
    tmp_path: Path, fields: dict[str, Any], status: int, named: str
) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        for path in ("runs", "runs/stream", "runs/wait"):
            response = await client.post(f"/threads/{thread_id}/{path}", json=said("hello", **fields))
            assert response.status_code == status, response.text
            assert named in response.json()["detail"]
        assert (await client.get(f"/threads/{thread_id}/runs")).json() == []
        assert (await client.get(f"/threads/{thread_id}")).json()["status"] == "idle"


async def test_defaults_of_the_clients_and_keys_that_the_host_reserves_are_accepted(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        result = await client.say(
            thread_id,
            "hello",
            stream_mode=["values", "messages-tuple"],
            stream_subgraphs=True,
            stream_resumable=True,
            config={
                "configurable": {
                    "thread_id": thread_id, "user_id": "me", "__pregel_send": 1, "checkpoint_ns": "x",
                },
                "recursion_limit": 50,
                "tags": ["a"],
            },
            context={"__deerflow_run_scope": {"forged": True}, "model_name": "scripted"},
            checkpoint_during=True,
            something_newer={"than": "us"},
        )  # fmt: skip
        assert answer(result) == "echo: hello"


async def test_assistant_may_be_named_by_graph_or_id(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        assert answer(await client.say(thread_id, "hello", assistant_id=ASSISTANT_ID)) == "echo: hello"


async def test_cancelling_twice_succeeds_and_a_finished_run_says_that_it_is(tmp_path: Path) -> None:
    async with gateway(tmp_path, [SLOW]) as client:
        thread_id = await client.thread()
        run_id = await client.start(thread_id, "slow")
        path = f"/threads/{thread_id}/runs/{run_id}"
        assert (await client.post(f"{path}/cancel", params={"wait": 1})).status_code == 200
        run = (await client.get(path)).json()
        assert (run["status"], run["cancel_reason"]) == ("interrupted", "cancelled")
        assert (await client.post(f"{path}/cancel")).status_code == 202
        await client.say(thread_id, "hello")
        finished = (await client.get(f"/threads/{thread_id}/runs")).json()[0]["run_id"]
        late = await client.post(f"/threads/{thread_id}/runs/{finished}/cancel")
        assert late.status_code == 409
        assert "success" in late.json()["detail"]
        unknown = await client.post(f"/threads/{thread_id}/runs/{UNKNOWN_ID}/cancel")
        assert unknown.status_code == 404
        assert (await client.get(path)).json()["status"] == "interrupted"


@pytest.mark.parametrize("way", ["cancel", "cancel many", "newer run"])
async def test_rolling_back_leaves_nothing_of_a_run(tmp_path: Path, way: str) -> None:
    async with gateway(tmp_path, [ASKING_SLOWLY], database={"backend": "sqlite"}) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "hello")
        before = (await client.get(f"/threads/{thread_id}/state")).json()
        run_id = await client.start(thread_id, "write slowly")
        path = f"/threads/{thread_id}/runs/{run_id}"
        while len((await client.get(f"/threads/{thread_id}/state")).json()["values"]["messages"]) < 4:
            await asyncio.sleep(0.01)
        if way == "cancel":
            rolled = await client.post(f"{path}/cancel", params={"action": "rollback", "wait": 1})
            assert (rolled.status_code, rolled.json()) == (200, {})
        elif way == "cancel many":
            body = {"thread_id": thread_id, "run_ids": [run_id]}
            assert (await client.post("/runs/cancel?action=rollback", json=body)).status_code == 204
            await client.get(f"{path}/join")
        else:
            result = await client.say(thread_id, "again", multitask_strategy="rollback")
            assert [message["content"] for message in result["messages"]] == [
                "hello", "echo: hello", "again", "echo: again",
            ]  # fmt: skip
        assert (await client.get(path)).status_code == 404
        if way != "newer run":
            assert (await client.get(f"/threads/{thread_id}/state")).json() == before


async def test_run_that_has_ended_is_not_rolled_back(tmp_path: Path) -> None:
    async with gateway(tmp_path, [SLOW]) as client:
        thread_id = await client.thread()
        finished = (await client.post(f"/threads/{thread_id}/runs", json=said("hello"))).json()["run_id"]
        await client.get(f"/threads/{thread_id}/runs/{finished}/join")
        stopped = await client.start(thread_id, "slow")
        await client.post(f"/threads/{thread_id}/runs/{stopped}/cancel?wait=1")
        for run_id in (finished, stopped):
            path = f"/threads/{thread_id}/runs/{run_id}"
            assert (await client.post(f"{path}/cancel?action=rollback")).status_code == 409
            assert (await client.get(path)).status_code == 200


async def test_waiting_for_a_run_that_is_stopped_is_no_success(tmp_path: Path) -> None:
    async with gateway(tmp_path, [SLOW]) as client:
        thread_id = await client.thread()
        run_id = await client.start(thread_id, "slow")
        joined = asyncio.create_task(client.get(f"/threads/{thread_id}/runs/{run_id}/join"))
        await asyncio.sleep(0.05)
        await client.post(f"/threads/{thread_id}/runs/{run_id}/cancel")
        assert (await joined).json()["__error__"]["error"] == "RunStopped"
        again = await client.get(f"/threads/{thread_id}/runs/{run_id}/join")
        assert again.json()["__error__"]["error"] == "RunStopped"


async def test_second_run_is_rejected_where_that_is_the_strategy(tmp_path: Path) -> None:
    async with gateway(tmp_path, [SLOW]) as client:
        thread_id = await client.thread()
        await client.start(thread_id, "slow")
        body = said("hello", multitask_strategy="reject")
        response = await client.post(f"/threads/{thread_id}/runs", json=body)
        assert response.status_code == 409
        assert "multitask_strategy" in response.json()["detail"]


async def test_of_two_rejecting_runs_at_the_same_instant_one_is_taken(tmp_path: Path) -> None:
    async with gateway(tmp_path, [SLOW]) as client:
        thread_id = await client.thread()
        body = said("slow", multitask_strategy="reject")
        both = await asyncio.gather(*(client.post(f"/threads/{thread_id}/runs", json=body) for _ in range(2)))
        assert sorted(response.status_code for response in both) == [200, 409]
        assert len((await client.get(f"/threads/{thread_id}/runs")).json()) == 1


async def test_interrupting_run_ends_the_old_one_first(tmp_path: Path) -> None:
    async with gateway(tmp_path, [SLOW]) as client:
        thread_id = await client.thread()
        run_id = await client.start(thread_id, "slow")
        result = await client.say(thread_id, "hello", multitask_strategy="interrupt")
        assert answer(result) == "echo: hello"
        run = (await client.get(f"/threads/{thread_id}/runs/{run_id}")).json()
        assert (run["status"], run["cancel_reason"]) == ("interrupted", "interrupt")


async def test_enqueued_runs_follow_one_another(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        results = await asyncio.gather(*(client.say(thread_id, str(n)) for n in range(4)))
        assert sorted(len(result["messages"]) for result in results) == [2, 4, 6, 8]


async def test_delayed_run_waits_for_its_time_and_can_be_stopped_meanwhile(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        run_id = await client.start(thread_id, "later", after_seconds=3600)
        assert answer(await client.say(thread_id, "hello")) == "echo: hello"
        path = f"/threads/{thread_id}/runs/{run_id}"
        assert (await client.get(path)).json()["status"] == "pending"
        await client.post(f"{path}/cancel", params={"wait": 1})
        assert (await client.get(path)).json()["status"] == "interrupted"
        soon = await client.say(thread_id, "soon", after_seconds=0.05)
        assert answer(soon) == "echo: soon"


async def test_deleted_run_is_gone_and_its_thread_free(tmp_path: Path) -> None:
    async with gateway(tmp_path, [SLOW]) as client:
        thread_id = await client.thread()
        run_id = await client.start(thread_id, "slow")
        path = f"/threads/{thread_id}/runs/{run_id}"
        assert (await client.delete(path)).status_code == 204
        for gone in (await client.get(path), await client.delete(path), await client.get(f"{path}/stream")):
            assert gone.status_code == 404
        assert (await client.get(f"/threads/{thread_id}")).json()["status"] != "busy"
        assert answer(await client.say(thread_id, "hello", multitask_strategy="reject")) == "echo: hello"


async def test_run_from_an_earlier_checkpoint_forgets_what_came_after(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "one")
        checkpoint = (await client.get(f"/threads/{thread_id}/state")).json()["checkpoint"]
        await client.say(thread_id, "two")
        forked = await client.say(thread_id, "three", checkpoint=checkpoint)
        assert [message["content"] for message in forked["messages"][::2]] == ["one", "three"]


async def test_shutting_down_host_takes_no_runs(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        await client.host.runs.drain(0)
        response = await client.post(f"/threads/{thread_id}/runs", json=said("hello"))
        assert response.status_code == 503
        assert (await client.get("/health/ready")).status_code == 503
        assert (await client.get("/health/live")).status_code == 200


async def test_provenance_keys_of_a_caller_are_removed(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        message = {
            "role": "user", "content": "hello",
            "additional_kwargs": {"deerflow_content_kind": "memory", "mine": 1},
        }  # fmt: skip
        values = await _wait(client, thread_id, {"messages": [message]})
        assert values["messages"][0]["additional_kwargs"] == {"mine": 1}


async def test_half_an_emoji_in_the_input_is_mended(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        content = (
            '{"assistant_id": "lead_agent", "input":'
            ' {"messages": [{"role": "user", "content": "half \\ud835 emoji"}]}}'
        )
        response = await client.post(
            f"/threads/{thread_id}/runs/wait", content=content, headers={"content-type": "application/json"}
        )
        assert answer(response.json()) == "echo: half � emoji"
        assert answer(await client.say(thread_id, "next")) == "echo: next"


async def _wait(client: GatewayClient, thread_id: str, state: dict[str, Any]) -> Any:
    body = {"assistant_id": ASSISTANT, "input": state}
    return (await client.post(f"/threads/{thread_id}/runs/wait", json=body)).json()


@pytest.mark.parametrize("limit", [10**8, -1, 0, True, "50", None, 7])
async def test_odd_recursion_limits_leave_the_run_bounded_and_working(tmp_path: Path, limit: Any) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        assert (
            answer(await client.say(thread_id, "hello", config={"recursion_limit": limit})) == "echo: hello"
        )
