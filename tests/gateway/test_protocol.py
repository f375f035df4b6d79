"""LangGraph's streaming protocol: commands, and the events of a thread."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langgraph_sdk import get_client
from support.gateways import (
    ASKING,
    ASSISTANT,
    FAILING,
    SLOW,
    Event,
    answer,
    gateway,
    running_server,
    said,
)
from support.hosts import DELEGATE_TWICE, scripted_config
from support.protocol import APPROVING, CHANNELS, ENDS, begin, following, of, statuses, told
from support.users import users_gateway

from deerflow.gateway.app import create_app


async def test_one_run_on_every_channel(tmp_path: Path) -> None:
    async with gateway(tmp_path, [DELEGATE_TWICE]) as client:
        thread_id = str(uuid4())
        run_id = await begin(client, thread_id, "delegate")
        async with following(client, thread_id) as stream:
            events = await told(stream)
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert (events[0].name, statuses(events)) == ("lifecycle", ["running", "completed"])
    assert {event.name for event in events} == set(CHANNELS) - {"input.requested"}
    assert of(events, "values")[-1]["messages"][-1]["content"].startswith("joined: ")
    of_calls: dict[str, list[str]] = {"call-1": [], "call-2": []}
    for data in of(events, "tools"):
        of_calls[data["tool_call_id"]].append(data["event"])
    assert list(of_calls.values()) == [["tool-started", "tool-finished"]] * 2
    nodes = [event.data["params"].get("node") for event in events if event.name == "updates"]
    assert nodes == ["model", "tools", "tools", "model"]
    assert {data["payload"]["type"] for data in of(events, "custom")} >= {"task_started", "task_completed"}
    assert all("messages" not in (data.get("input") or {}) for data in of(events, "tasks"))
    checkpoints = of(events, "checkpoints")
    assert [data["step"] for data in checkpoints] == [-1, 0, 1, 2, 3]
    assert checkpoints[1]["parent_id"] == checkpoints[0]["id"]
    seqs = [event.data["seq"] for event in events]
    assert seqs == sorted(set(seqs)) and [str(seq) for seq in seqs] == [event.id for event in events]
    assert len({event.data["event_id"] for event in events}) == len(events)
    assert events[0].data["event_id"].startswith(f"synth:{run_id}:")


async def test_messages_grow_block_by_block(tmp_path: Path) -> None:
    async with gateway(tmp_path, [DELEGATE_TWICE]) as client:
        thread_id = str(uuid4())
        await begin(client, thread_id, "delegate")
        async with following(client, thread_id, ["messages", "lifecycle"]) as stream:
            events = await told(stream)
    of_root = [event for event in events if event.data["params"]["namespace"] == []]
    first, last = _whole_messages(of(of_root, "messages"))
    assert [data["event"] for data in first if data["event"] != "content-block-delta"] == [
        "message-start", "content-block-start", "content-block-start",
        "content-block-finish", "content-block-finish", "message-finish",
    ]  # fmt: skip
    finished = [data["content"] for data in first if data["event"] == "content-block-finish"]
    assert [(block["type"], block["id"], block["args"]["prompt"]) for block in finished] == [
        ("tool_call", "call-1", "one"),
        ("tool_call", "call-2", "two"),
    ]
    text = "".join(data["delta"]["text"] for data in last if data["event"] == "content-block-delta")
    assert text == last[-2]["content"]["text"] and text.startswith("joined: ")
    assert last[-1]["usage"]["output_tokens"] > 0
    of_tools = [event for event in events if event.data["params"]["namespace"] == ["tools:call-2"]]
    assert [data["event"] for data in of(of_tools, "messages")][-1] == "message-finish"
    assert of(of_tools, "messages")[0]["role"] == "tool"


def _whole_messages(told: list[Any]) -> list[list[Any]]:
    messages: list[list[Any]] = []
    for data in told:
        if data["event"] == "message-start":
            messages.append([])
        messages[-1].append(data)
    return messages


async def test_whoever_comes_back_is_told_what_is_missing_and_the_same_as_before(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = str(uuid4())
        await begin(client, thread_id, "one")
        async with following(client, thread_id) as stream:
            before = await told(stream)
        await begin(client, thread_id, "two")
        async with following(client, thread_id) as stream:
            whole = await told(stream, 2)
        async with following(client, thread_id, since=before[3].data["seq"]) as stream:
            rest = await told(stream, 2)
        async with following(client, thread_id, since=before[-1].data["seq"]) as stream:
            second = await told(stream)
    assert whole[: len(before)] == before
    assert rest == whole[4:]
    assert second == whole[len(before) :] and statuses(second) == ["running", "completed"]
    assert of(whole, "values")[-1]["messages"][-1]["content"] == "echo: two"


async def test_stream_goes_on_with_runs_that_come_later(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = str(uuid4())
        async with following(client, thread_id, ["lifecycle", "values"]) as stream:
            for count in (1, 2, 3):
                await begin(client, thread_id, f"number {count}")
                events = await told(stream, count)
    assert statuses(events) == ["running", "completed"] * 3
    assert [len(data["messages"]) for data in of(events, "values")] == [1, 2, 3, 4, 5, 6]


async def test_runs_of_the_older_protocol_are_told_as_far_as_they_stream(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "hello", stream_mode=["values", "messages-tuple"])
        async with following(client, thread_id) as stream:
            events = await told(stream)
    assert [event.name for event in events] == ["lifecycle", "values", "values", "lifecycle"]


async def test_namespaces_and_depth_narrow_what_is_sent(tmp_path: Path) -> None:
    async with gateway(tmp_path, [DELEGATE_TWICE]) as client:
        thread_id = str(uuid4())
        await begin(client, thread_id, "delegate")
        async with following(client, thread_id) as stream:
            await told(stream)
        found = {}
        for name, count, body in (
            ("root", 2, {"namespaces": [[]], "depth": 0}),
            ("below", 2, {"namespaces": [["tools"]]}),
            ("one", 1, {"namespaces": [["tools:call-1"]]}),
        ):
            async with following(client, thread_id, ["messages"], **body) as stream:
                events = await stream.until(partial(_has_whole_messages, count))
                found[name] = {"|".join(event.data["params"]["namespace"]) for event in events}
    assert found == {"root": {""}, "below": {"tools:call-1", "tools:call-2"}, "one": {"tools:call-1"}}


def _has_whole_messages(count: int, events: list[Event]) -> bool:
    return [data["event"] for data in of(events, "messages")].count("message-finish") >= count


async def test_failed_run_says_why(tmp_path: Path) -> None:
    async with gateway(tmp_path, [FAILING]) as client:
        thread_id = str(uuid4())
        await begin(client, thread_id, "fail")
        async with following(client, thread_id, ["lifecycle"]) as stream:
            events = await told(stream)
    assert statuses(events) == ["running", "failed"]
    assert of(events, "lifecycle")[-1]["error"] == "the model broke"


async def test_stopped_run_is_told_as_interrupted(tmp_path: Path) -> None:
    async with gateway(tmp_path, [SLOW]) as client:
        thread_id = str(uuid4())
        run_id = await begin(client, thread_id, "slow")
        async with following(client, thread_id, ["lifecycle"]) as stream:
            await stream.until(lambda events: statuses(events) == ["running"])
            await client.post(f"/threads/{thread_id}/runs/{run_id}/cancel")
            assert statuses(await told(stream)) == ["running", "interrupted"]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "channels"),
        ({"channels": []}, "channels"),
        ({"channels": ["values", "bogus"]}, "bogus"),
        ({"channels": ["custom:"]}, "custom:"),
        ({"channels": ["values"], "since": -1}, "since"),
        ({"channels": ["values"], "since": True}, "since"),
        ({"channels": ["values"], "depth": "1"}, "depth"),
        ({"channels": ["values"], "namespaces": "x"}, "namespaces"),
        ({"channels": ["values"], "namespaces": [[1]]}, "namespaces"),
        ({"channels": ["values"] * 101}, "channels"),
    ],
)
async def test_streams_that_cannot_be_are_refused(tmp_path: Path, body: Any, named: str) -> None:
    async with gateway(tmp_path) as client:
        response = await client.post(f"/threads/{await client.thread()}/stream/events", json=body)
    assert response.status_code == 422
    assert named in response.json()["detail"]


async def test_stranger_who_waited_for_a_thread_is_told_nothing_of_it(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as running:
        alice, bob = await running.user("alice"), await running.user("bob")
        thread_id = str(uuid4())
        async with following(bob, thread_id) as his, following(alice, thread_id) as hers:
            await begin(alice, thread_id, "a secret")
            await told(hers)
            assert his.body == b""
        refused = await bob.post(f"/threads/{thread_id}/stream/events", json={"channels": ["values"]})
        assert refused.status_code == 404
        body = {"id": 1, "method": "run.start", "params": {"assistant_id": ASSISTANT, "input": None}}
        assert (await bob.post(f"/threads/{thread_id}/commands", json=body)).status_code == 404
        assert len((await alice.get(f"/threads/{thread_id}/runs")).json()) == 1


async def test_stream_ends_with_the_server(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        context = following(client, str(uuid4()))
        stream = await context.__aenter__()
        assert stream.status == 200
    async with asyncio.timeout(20):
        await stream.until(lambda _: False)
    assert stream.is_over
    await context.__aexit__(None, None, None)


async def test_python_client_reads_the_protocol(tmp_path: Path) -> None:
    config = scripted_config(tmp_path, [ASKING], shutdown={"drain_seconds": 0.01})
    async with (
        running_server(create_app(config)) as server,
        get_client(url=server.url, api_key=None) as client,
        client.threads.stream(assistant_id=ASSISTANT) as thread,
        asyncio.timeout(30),
    ):
        methods = asyncio.create_task(_methods_until_end(thread.events, 2))
        await thread.run.start(input=said("ask")["input"], config=APPROVING)
        while not thread.interrupts:
            await asyncio.sleep(0.01)
        await thread.run.respond({"decisions": [{"type": "approve"}]})
        seen = await methods
        values = await client.threads.get_state(thread.thread_id)
    assert answer(values["values"]).startswith("written: created")
    assert {"lifecycle", "values", "messages", "tools", "input.requested"} <= seen


async def _methods_until_end(events: Any, count: int) -> set[str]:
    seen = set()
    async for event in events:
        seen.add(event["method"])
        count -= event["method"] == "lifecycle" and event["params"]["data"]["event"] in ENDS
        if count == 0:
            break
    return seen
