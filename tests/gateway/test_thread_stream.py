"""The stream of a thread, over all of its runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client
from support.gateways import FAILING, SLOW, Event, GatewayClient, gateway, running_server, said
from support.hosts import scripted_config
from support.lasting import LastingStream, lasting

from deerflow.gateway.app import create_app


def following(
    client: GatewayClient, thread_id: str, query: str = "", last_event_id: str | None = None
) -> Any:
    """A thread's events as they come."""
    headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
    return lasting(client, "GET", f"/threads/{thread_id}/stream{query}", headers=headers)


def done(events: list[Event]) -> list[str]:
    """The runs that are over."""
    over = [event.data for event in events if event.name == "metadata" and "status" in event.data]
    return [data["run_id"] for data in over if data["status"] == "run_done"]


async def told(stream: LastingStream, count: int) -> list[Event]:
    """The events until so many runs are over."""
    return await stream.until(lambda events: len(done(events)) >= count)


async def test_runs_are_streamed_one_after_the_other_as_they_asked(tmp_path: Path) -> None:
    async with gateway(tmp_path, [FAILING]) as client:
        thread_id = await client.thread()
        async with following(client, thread_id) as stream:
            first = await client.start(thread_id, "hello", stream_mode="updates")
            second = await client.start(thread_id, "fail", stream_mode="values")
            third = await client.start(thread_id, "hi", stream_mode=["messages-tuple"])
            events = await told(stream, 3)
    assert [event.name for event in events] == [
        *("metadata", "updates", "metadata"),
        *("metadata", "values", "error", "metadata"),
        *("metadata", "messages", "messages", "messages", "metadata"),
    ]
    assert done(events) == [first, second, third]
    assert events[0].data == {"run_id": first, "attempt": 1}
    ids = [int(event.id or 0) for event in events]
    assert ids == sorted(set(ids))


async def test_stream_goes_on_after_the_event_that_a_client_names(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        for text in ("one", "two"):
            await client.say(thread_id, text)
        found = []
        for last_event_id in ("-", "-1", "0"):
            async with following(client, thread_id, last_event_id=last_event_id) as stream:
                found.append(await told(stream, 2))
        whole = found[0]
        async with following(client, thread_id, last_event_id=whole[4].id) as stream:
            rest = await told(stream, 1)
    assert found == [whole] * 3 and len(whole) == 8
    assert rest == whole[5:]


async def test_without_a_last_event_only_what_comes_is_told(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "one")
        async with following(client, thread_id, "?stream_modes=lifecycle") as stream:
            run_id = await client.start(thread_id, "two")
            events = await told(stream, 1)
    assert [event.data for event in events] == [
        {"run_id": run_id, "attempt": 1},
        {"status": "run_done", "run_id": run_id},
    ]


@pytest.mark.parametrize(
    "query",
    [
        "?stream_modes=lifecycle,state_update",
        "?stream_mode=lifecycle&stream_mode=state_update",
        '?stream_modes=["lifecycle","state_update"]',
    ],
)
async def test_changed_states_are_told(tmp_path: Path, query: str) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        async with following(client, thread_id, query) as stream:
            await client.say(thread_id, "one")
            await told(stream, 1)
            values = {"messages": [{"role": "user", "content": "by hand"}]}
            await client.post(f"/threads/{thread_id}/state", json={"values": values, "as_node": "model"})
            events = await stream.until(lambda events: events[-1].name == "state_update")
    assert [event.name for event in events] == ["metadata", "metadata", "state_update"]
    assert events[-1].data["thread_id"] == thread_id
    assert events[-1].data["state"]["values"]["messages"][-1]["content"] == "by hand"


async def test_what_cannot_be_streamed_is_refused(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        bad_mode = await client.get(f"/threads/{thread_id}/stream?stream_modes=values")
        bad_id = await client.get(f"/threads/{thread_id}/stream", headers={"Last-Event-ID": "bogus"})
    assert (bad_mode.status_code, "'values'" in bad_mode.json()["detail"]) == (422, True)
    assert (bad_id.status_code, "Last-Event-ID" in bad_id.json()["detail"]) == (400, True)


async def test_stream_ends_with_its_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deerflow.gateway.threads.feed.CHECK_SECONDS", 0.0)
    async with gateway(tmp_path, [SLOW]) as client:
        thread_id = await client.thread()
        async with following(client, thread_id) as stream:
            await client.start(thread_id, "slow")
            await stream.until(lambda events: events)
            assert (await client.delete(f"/threads/{thread_id}")).status_code == 204
            await stream.until(lambda _: False)
            assert stream.is_over


async def test_python_client_joins_the_stream(tmp_path: Path) -> None:
    config = scripted_config(tmp_path, shutdown={"drain_seconds": 0.01})
    async with (
        running_server(create_app(config)) as server,
        get_client(url=server.url, api_key=None) as client,
        asyncio.timeout(30),
    ):
        thread = await client.threads.create()
        await client.runs.wait(thread["thread_id"], "lead_agent", input=said("hello")["input"])
        names = []
        modes: Any = ["run_modes", "state_update"]
        parts = await client.threads.join_stream(thread["thread_id"], last_event_id="-1", stream_mode=modes)
        async for part in parts:
            names.append(part.event)
            if part.event == "metadata" and "status" in part.data:
                break
    assert names == ["metadata", "values", "values", "metadata"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("GET", "stream", None), ("POST", "stream/events", {"channels": ["values"]})],
)
async def test_quiet_streams_are_kept_up_and_those_left_are_forgotten(
    tmp_path: Path, method: str, path: str, body: Any
) -> None:
    async with gateway(tmp_path, stream={"heartbeat_seconds": 0.05}) as client:
        thread_id = await client.thread()
        notices = client.host.runs.notices
        async with lasting(client, method, f"/threads/{thread_id}/{path}", json=body) as stream:
            await stream.until(lambda _: stream.body.count(b": heartbeat") >= 2)
            assert notices.has_readers(thread_id)
        assert not notices.has_readers(thread_id)
    assert (stream.status, stream.headers["cache-control"]) == (200, "no-store")
