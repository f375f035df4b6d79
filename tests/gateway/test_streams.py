"""The events of runs, as streams."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
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
    parse_events,
    said,
    serving,
)
from support.hosts import DELEGATE_TWICE, scripted_config
from support.lasting import lasting

from deerflow.gateway.app import create_app
from deerflow.runs.hosts import foreign
from deerflow.runs.record import RunRecord, RunStatus

TALKING = {"when": "^talk", "turns": [{"text": "go go go on"}]}


async def _stream(client: GatewayClient, text: str, **fields: Any) -> list[Any]:
    thread_id = await client.thread()
    return await client.events("POST", f"/threads/{thread_id}/runs/stream", json=said(text, **fields))


async def test_stream_has_the_headers_and_frames_of_the_protocol(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        response = await client.post(f"/threads/{thread_id}/runs/stream", json=said("hello"))
        run_id = response.headers["content-location"].rpartition("/")[2]
        path = f"/threads/{thread_id}/runs/{run_id}"
        assert response.headers["content-location"] == path
        assert response.headers["location"] == f"{path}/stream"
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-accel-buffering"] == "no"
        assert "content-length" not in response.headers
        assert re.fullmatch(r"(event: [a-z]+\ndata: \{.*\}\nid: \d+\n\n)+", response.text)
        events = parse_events(response.text)
        assert [event.name for event in events] == ["metadata", "values", "values", "end"]
        assert [event.id for event in events] == ["1", "2", "3", "4"]
        assert events[0].data == {"run_id": run_id, "attempt": 1}
        assert events[-1].data["status"] == "success"
        assert answer(events[2].data) == "echo: hello"


@pytest.mark.parametrize(
    ("modes", "names"),
    [
        ("values", {"values"}),
        (["updates"], {"updates"}),
        (["messages-tuple"], {"messages"}),
        (["messages"], {"messages/metadata", "messages/partial"}),
        (["values", "updates", "messages-tuple"], {"values", "updates", "messages"}),
        (["debug"], {"debug"}),
        (["tasks", "checkpoints"], {"tasks", "checkpoints"}),
        (["events"], {"events"}),
        (["events", "messages-tuple"], {"events", "messages"}),
    ],
)
async def test_only_the_asked_modes_are_streamed(tmp_path: Path, modes: Any, names: set[str]) -> None:
    async with gateway(tmp_path) as client:
        events = await _stream(client, "hello", stream_mode=modes)
        assert {event.name for event in events} == {"metadata", "end", *names}


async def test_repeated_words_arrive_as_often_as_they_were_said(tmp_path: Path) -> None:
    async with gateway(tmp_path, [TALKING]) as client:
        tuples = await _stream(client, "talk", stream_mode="messages-tuple")
        chunks = [event.data[0]["content"] for event in tuples if event.name == "messages"]
        assert "".join(chunks) == "go go go on"
        assert chunks.count("go ") == 3
        partials = await _stream(client, "talk", stream_mode="messages")
        texts = [event.data[0]["content"] for event in partials if event.name == "messages/partial"]
        assert texts[:4] == ["go ", "go go ", "go go go ", "go go go on"]
        assert {event.data[0]["type"] for event in partials if event.name == "messages/partial"} == {"ai"}


async def test_delegations_are_told_as_custom_events(tmp_path: Path) -> None:
    async with gateway(tmp_path, [DELEGATE_TWICE]) as client:
        events = await _stream(client, "delegate", stream_mode=["custom", "values"])
        told = [event.data for event in events if event.name == "custom"]
        assert {item["task_id"] for item in told} == {"call-1", "call-2"}
        assert [item["type"] for item in told].count("task_completed") == 2
        assert {event.name for event in events} == {"metadata", "custom", "values", "end"}


async def test_failure_is_an_error_event_before_the_end(tmp_path: Path) -> None:
    async with gateway(tmp_path, [FAILING]) as client:
        events = await _stream(client, "fail")
        assert [event.name for event in events[-2:]] == ["error", "end"]
        assert set(events[-2].data) == {"error", "message"}
        assert "the model broke" in events[-2].data["message"]
        assert events[-1].data["status"] == "error"


@pytest.mark.parametrize(("modes", "carrier"), [(["values"], "values"), (["updates", "values"], "updates")])
async def test_interrupt_is_told_once(tmp_path: Path, modes: list[str], carrier: str) -> None:
    async with gateway(tmp_path, [ASKING]) as client:
        context = {"approve_tools": ["write_file"]}
        events = await _stream(client, "ask", stream_mode=modes, context=context)
        (event,) = [event for event in events if "__interrupt__" in event.data]
        assert event.name == carrier
        assert set(event.data["__interrupt__"][0]) >= {"id", "value"}
        assert events[-1].data["status"] == "interrupted"


async def test_joining_without_an_id_shows_what_comes_and_with_one_what_is_missing(tmp_path: Path) -> None:
    async with gateway(tmp_path, [SLOW]) as client:
        thread_id = await client.thread()
        run_id = await client.start(thread_id, "slow")
        path = f"/threads/{thread_id}/runs/{run_id}"
        await _until_events(client, run_id, 2)
        headers = [{}, {"Last-Event-ID": "-1"}, {"Last-Event-ID": "1"}, {"Last-Event-ID": "2"}]
        joins = [asyncio.create_task(client.events("GET", f"{path}/stream", headers=h)) for h in headers]
        await asyncio.sleep(0.05)
        await client.post(f"{path}/cancel")
        live, everything, after_one, after_two = [
            [(event.name, event.id) for event in await join] for join in joins
        ]
        assert live == [("end", "3")]
        assert everything == [("metadata", "1"), ("values", "2"), ("end", "3")]
        assert after_one == everything[1:]
        assert after_two == live


async def test_joining_an_ended_run_ends_at_once(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        run_id = await client.start(thread_id, "hello")
        path = f"/threads/{thread_id}/runs/{run_id}"
        await client.get(f"{path}/join")
        assert [event.name for event in await client.events("GET", f"{path}/stream")] == ["end"]
        replay = await client.events("GET", f"{path}/stream", headers={"Last-Event-ID": "2"})
        assert [event.name for event in replay] == ["values", "end"]


async def test_joining_a_run_of_an_earlier_life_of_the_host_tells_its_end(tmp_path: Path) -> None:
    config = scripted_config(tmp_path, [FAILING], database={"backend": "sqlite"})
    async with serving(create_app(config)) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "hello")
        await client.say(thread_id, "fail")
        runs = (await client.get(f"/threads/{thread_id}/runs")).json()
    async with serving(create_app(config)) as client:
        paths = [f"/threads/{thread_id}/runs/{run['run_id']}" for run in runs]
        (end,) = await client.events("GET", f"{paths[0]}/stream")
        assert (end.name, end.data["status"], end.id) == ("end", "error", None)
        assert "the model broke" in end.data["error"]
        gap, end = await client.events("GET", f"{paths[1]}/stream", headers={"Last-Event-ID": "2"})
        assert (gap.name, gap.data) == ("gap", {"after": 2, "next": None})
        assert end.data["status"] == "success"
        assert "the model broke" in (await client.get(f"{paths[0]}/join")).json()["__error__"]["message"]
        assert answer(await client.say(thread_id, "again")) == "echo: again"


@pytest.mark.parametrize("last_event_id", ["x", "1.5", "-2", "9" * 30, "1;2"])
async def test_malformed_event_id_is_refused(tmp_path: Path, last_event_id: str) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        run_id = await client.start(thread_id, "hello")
        path = f"/threads/{thread_id}/runs/{run_id}/stream"
        response = await client.get(path, headers={"Last-Event-ID": last_event_id})
        assert response.status_code == 400
        assert "Last-Event-ID" in response.json()["detail"]


async def test_unknown_run_is_not_found_before_anything_is_streamed(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id, other = await client.thread(), await client.thread()
        run_id = await client.start(thread_id, "hello")
        for path in (f"/threads/{thread_id}/runs/{UNKNOWN_ID}", f"/threads/{other}/runs/{run_id}"):
            for verb in ("stream", "join"):
                response = await client.get(f"{path}/{verb}")
                assert response.status_code == 404, (path, verb)


async def test_lost_events_are_a_gap_and_then_the_oldest_that_is_left(tmp_path: Path) -> None:
    async with gateway(tmp_path, stream={"max_events": 2}) as client:
        thread_id = await client.thread()
        run_id = await client.start(thread_id, "hello", stream_mode=["values", "updates", "messages-tuple"])
        path = f"/threads/{thread_id}/runs/{run_id}"
        await client.get(f"{path}/join")
        events = await client.events("GET", f"{path}/stream", headers={"Last-Event-ID": "-1"})
        assert [event.name for event in events] == ["gap", "values", "end"]
        assert events[0].data == {"after": 0, "next": int(events[1].id)}


async def test_all_runs_together_are_bounded_in_bytes(tmp_path: Path) -> None:
    async with gateway(tmp_path, stream={"max_total_bytes": 16}) as client:
        thread_id = await client.thread()
        run_id = await client.start(thread_id, "hello")
        path = f"/threads/{thread_id}/runs/{run_id}"
        await client.get(f"{path}/join")
        events = await client.events("GET", f"{path}/stream", headers={"Last-Event-ID": "-1"})
        assert [event.name for event in events] == ["gap", "end"]


async def test_events_of_the_graph_are_kept_as_all_others_are(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        run_id = await client.start(thread_id, "hello", stream_mode=["values", "events"])
        path = f"/threads/{thread_id}/runs/{run_id}"
        await client.get(f"{path}/join")

        async def after(event_id: str, **params: str) -> list[Any]:
            headers = {"Last-Event-ID": event_id}
            return await client.events("GET", f"{path}/stream", headers=headers, params=params)

        whole = await after("-1")
        assert [event.id for event in whole] == [str(number) for number in range(1, len(whole) + 1)]
        assert await after("5") == whole[5:]
        asked = await after("-1", stream_mode="events")
        assert asked == [event for event in whole if event.name != "values"]
        kinds = [event.data["event"] for event in asked if event.name == "events"]
        assert (kinds[0], kinds[-1]) == ("on_chain_start", "on_chain_end")
        assert "on_chat_model_stream" in kinds


async def test_events_show_nothing_of_what_a_caller_configures(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        secret = {"api_key": "caller-secret", "model_name": "scripted"}
        config = {"configurable": secret, "metadata": secret, "tags": ["caller-secret"]}
        events = await _stream(client, "hello", stream_mode="events", config=config, metadata=secret)
        assert "events" in {event.name for event in events}
        assert "caller-secret" not in str([event.data for event in events])


async def test_join_may_ask_for_some_of_the_modes(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        run_id = await client.start(thread_id, "hello", stream_mode=["values", "updates", "messages-tuple"])
        path = f"/threads/{thread_id}/runs/{run_id}"
        await client.get(f"{path}/join")
        for asked, names in (
            ({"stream_mode": "updates"}, {"updates"}),
            ({"stream_mode": ["updates", "messages-tuple"]}, {"updates", "messages"}),
            ({"stream_mode": '["values"]'}, {"values"}),
        ):
            events = await client.events(
                "GET", f"{path}/stream", params=asked, headers={"Last-Event-ID": "-1"}
            )
            assert {event.name for event in events} == {"metadata", "end", *names}


async def test_silent_run_sends_heartbeats(tmp_path: Path) -> None:
    async with gateway(tmp_path, [SLOW], stream={"heartbeat_seconds": 0.02}) as client:
        thread_id = await client.thread()
        run_id = await client.start(thread_id, "slow")
        path = f"/threads/{thread_id}/runs/{run_id}"
        async with lasting(client, "GET", f"{path}/stream") as stream:
            body = await stream.until_body(lambda body: body.count(b": heartbeat\n\n") >= 3)
            assert not stream.is_over and b"event: end" not in body
        async with lasting(client, "GET", f"{path}/join") as joined:
            assert set(await joined.until_body(lambda body: len(body) >= 2)) == set(b"\n")
            await client.post(f"{path}/cancel")
            assert "__error__" in orjson.loads(await joined.until_body(lambda _: False))


async def test_stateless_run_leaves_no_thread(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        response = await client.post("/runs/stream", json=said("hello"))
        events = parse_events(response.text)
        assert [event.name for event in events] == ["metadata", "values", "values", "end"]
        path = response.headers["content-location"]
        assert re.fullmatch(r"/threads/[0-9a-f-]{36}/runs/[0-9a-f-]{36}", path)
        assert (await client.get(path)).status_code == 404
        assert (await client.post("/threads/count", json={})).json() == 0
        again = await client.events("GET", f"{path}/stream", headers={"Last-Event-ID": "3"})
        assert [event.name for event in again] == ["end"]
        assert answer((await client.get(f"{path}/join")).json()) == "echo: hello"


async def test_stateless_runs_can_be_waited_for_kept_and_stopped(tmp_path: Path) -> None:
    async with gateway(tmp_path, [SLOW]) as client:
        assert answer((await client.post("/runs/wait", json=said("hello"))).json()) == "echo: hello"
        kept = await client.post("/runs/wait", json=said("hello", on_completion="keep"))
        thread_path = kept.headers["content-location"].rpartition("/runs/")[0]
        assert answer((await client.get(thread_path)).json()["values"]) == "echo: hello"
        run = (await client.post("/runs", json=said("slow"))).json()
        some = {"thread_id": run["thread_id"], "run_ids": [run["run_id"]]}
        assert (await client.post("/runs/cancel", json=some)).status_code == 204
        await _until_gone(client, run["run_id"])
        assert (await client.post("/runs/cancel", json=some)).status_code == 404
        assert (await client.post("/threads/count", json={})).json() == 1


async def test_batch_and_bulk_cancel(tmp_path: Path) -> None:
    async with gateway(tmp_path, [SLOW]) as client:
        runs = (await client.post("/runs/batch", json=[said("slow"), said("slow")])).json()
        assert len({run["thread_id"] for run in runs}) == 2
        assert (await client.post("/runs/cancel", json={"status": "all"})).status_code == 204
        for run in runs:
            await _until_gone(client, run["run_id"])
        assert (await client.post("/runs/cancel", json={"status": "all"})).status_code == 404
        for wrong in ({}, {"status": "all", "thread_id": UNKNOWN_ID}, {"status": "done"}):
            assert (await client.post("/runs/cancel", json=wrong)).status_code == 422


async def test_resuming_needs_a_thread(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        for path in ("/runs", "/runs/stream", "/runs/wait"):
            response = await client.post(path, json={"assistant_id": ASSISTANT, "command": {"resume": 1}})
            assert response.status_code == 400
            assert "thread" in response.json()["detail"]


async def _until_events(client: GatewayClient, run_id: str, count: int) -> None:
    async with asyncio.timeout(20):
        while (run := client.host.runs.find(run_id)) is None or run.log.last_id < count:
            await asyncio.sleep(0.01)


async def _until_gone(client: GatewayClient, run_id: str) -> None:
    async with asyncio.timeout(20):
        while client.host.runs.find(run_id) is not None:
            await asyncio.sleep(0.01)


async def test_run_that_another_process_carries_is_followed_by_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "PAUSE_SECONDS", 0.01)
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        runs = client.host.database.stores.runs
        record = RunRecord(str(uuid4()), thread_id, ASSISTANT, status=RunStatus.PENDING)
        await runs.create(record)
        path = f"/threads/{thread_id}/runs/{record.run_id}"
        stream = asyncio.create_task(client.events("GET", f"{path}/stream"))
        joined = asyncio.create_task(client.get(f"{path}/join"))
        await runs.move(record.run_id, RunStatus.RUNNING)
        await asyncio.sleep(0.05)
        assert not stream.done()
        assert (await client.post(f"{path}/cancel")).status_code == 202
        asked = await runs.get(record.run_id)
        assert asked is not None and asked.stop_requested == "cancelled"
        await runs.move(record.run_id, RunStatus.ERROR, error="ValueError: elsewhere")
        (end,) = await stream
        assert (end.name, end.data["status"], end.data["error"]) == ("end", "error", "ValueError: elsewhere")
        assert (await joined).json() == {"__error__": {"error": "ValueError", "message": "elsewhere"}}
