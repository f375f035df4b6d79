"""Clients that leave, and a server that ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.gateways import SLOW, RunningServer, answer, parse_events, running_server, said
from support.held import Held
from support.hosts import scripted_config

from deerflow.gateway.app import create_app
from deerflow.runs import finish


@asynccontextmanager
async def _server(tmp_path: Path, **sections: Any):  # type: ignore[no-untyped-def]
    config = scripted_config(tmp_path, [SLOW], **{"shutdown": {"drain_seconds": 0.05}, **sections})
    async with running_server(create_app(config)) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=20) as client:
            yield server, client


async def _thread(client: httpx.AsyncClient) -> str:
    return str((await client.post("/threads", json={})).json()["thread_id"])


async def _run_on(client: httpx.AsyncClient, thread_id: str) -> str:
    """The id of the thread's only run, as soon as it is recorded."""
    async with asyncio.timeout(20):
        while not (runs := (await client.get(f"/threads/{thread_id}/runs")).json()):
            await asyncio.sleep(0.01)
    return str(runs[0]["run_id"])


async def _until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def _open_stream_and_leave(client: httpx.AsyncClient, method: str, path: str, body: Any) -> None:
    async with client.stream(method, path, json=body) as response:
        assert response.status_code == 200
        async for _ in response.aiter_bytes():
            break


async def _answering(server: RunningServer, count: int) -> None:
    """Wait until the server answers so many requests, and has noticed who left."""
    await _until(lambda: len(server.server.server_state.tasks) == count)


async def _wait_and_leave(server: RunningServer, client: httpx.AsyncClient, path: str, body: Any) -> None:
    waiting = asyncio.create_task(client.post(path, json=body))
    await _until(server.host.runs.active)
    waiting.cancel()
    await asyncio.wait({waiting})


@pytest.mark.parametrize("verb", ["stream", "wait"])
async def test_run_that_is_bound_to_its_client_is_stopped_when_the_client_leaves(
    tmp_path: Path, verb: str
) -> None:
    async with _server(tmp_path) as (server, client):
        thread_id = await _thread(client)
        body = said("slow", on_disconnect="cancel")
        path = f"/threads/{thread_id}/runs/{verb}"
        if verb == "stream":
            await _open_stream_and_leave(client, "POST", path, body)
        else:
            await _wait_and_leave(server, client, path, body)
        await _until(lambda: not server.host.runs.active_on(thread_id))
        (run,) = (await client.get(f"/threads/{thread_id}/runs")).json()
        assert (run["status"], run["cancel_reason"]) == ("interrupted", "disconnected")


@pytest.mark.parametrize("verb", ["stream", "wait"])
async def test_run_goes_on_without_its_client_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    ending = Held(monkeypatch, finish, "save_ending")
    async with _server(tmp_path) as (server, client):
        thread_id = await _thread(client)
        path = f"/threads/{thread_id}/runs/{verb}"
        if verb == "stream":
            await _open_stream_and_leave(client, "POST", path, said("long"))
        else:
            await _wait_and_leave(server, client, path, said("long"))
        await _answering(server, 0)
        ending.let_go.set()
        joined = await client.get(f"/threads/{thread_id}/runs/{await _run_on(client, thread_id)}/join")
        assert answer(joined.json()) == "echo: long"
        assert (await client.get(f"/threads/{thread_id}/runs")).json()[0]["status"] == "success"


async def test_joiner_that_leaves_never_stops_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ending = Held(monkeypatch, finish, "save_ending")
    async with _server(tmp_path) as (server, client):
        thread_id = await _thread(client)
        body = said("long", on_disconnect="cancel")
        async with client.stream("POST", f"/threads/{thread_id}/runs/stream", json=body) as response:
            path = f"/threads/{thread_id}/runs/{await _run_on(client, thread_id)}"
            async with client.stream("GET", f"{path}/stream", headers={"Last-Event-ID": "-1"}) as joined:
                async for _ in joined.aiter_bytes():
                    break
            await _answering(server, 1)
            waiting = asyncio.create_task(client.get(f"{path}/join"))
            await _answering(server, 2)
            waiting.cancel()
            await _answering(server, 1)
            ending.let_go.set()
            text = (await response.aread()).decode()
        assert parse_events(text)[-1].data["status"] == "success"


async def test_lost_connection_is_taken_up_where_it_broke(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending = Held(monkeypatch, finish, "save_ending")
    async with _server(tmp_path) as (server, client):
        thread_id = await _thread(client)
        async with client.stream("POST", f"/threads/{thread_id}/runs/stream", json=said("long")) as response:
            location = response.headers["location"]
            seen = parse_events((await anext(response.aiter_bytes())).decode())
        await _answering(server, 0)
        ending.let_go.set()
        headers = {"Last-Event-ID": seen[-1].id or ""}
        rest = parse_events((await client.get(location, headers=headers)).text)
        assert [event.id for event in [*seen, *rest]] == ["1", "2", "3", "4"]


async def test_reader_that_does_not_read_holds_back_neither_the_run_nor_other_readers(tmp_path: Path) -> None:
    big = {"when": "^big", "turns": [{"text": "x" * 400_000 + " end"}]}
    config = scripted_config(tmp_path, [big], shutdown={"drain_seconds": 0.05})
    async with running_server(create_app(config)) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=20) as client:
            thread_id = await _thread(client)
            modes = ["values", "updates", "messages", "debug"]
            body = said("big", stream_mode=modes)
            async with client.stream("POST", f"/threads/{thread_id}/runs/stream", json=body) as response:
                run_id = await _run_on(client, thread_id)
                joined = await client.get(f"/threads/{thread_id}/runs/{run_id}/join")
                assert answer(joined.json()).endswith("end")
                path = f"/threads/{thread_id}/runs/{run_id}/stream"
                other = parse_events((await client.get(path, headers={"Last-Event-ID": "-1"})).text)
                events = parse_events((await response.aread()).decode())
            assert events[-1].name == "end"
            assert other == events


async def test_server_that_ends_stops_its_runs_and_ends_their_streams(tmp_path: Path) -> None:
    config = scripted_config(
        tmp_path, [SLOW], shutdown={"drain_seconds": 0.05}, database={"backend": "sqlite"}
    )
    before = asyncio.all_tasks()
    async with running_server(create_app(config)) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=20) as client:
            thread_id = await _thread(client)
            stream = asyncio.create_task(client.post(f"/threads/{thread_id}/runs/stream", json=said("slow")))
            await _run_on(client, thread_id)
            server.server.should_exit = True
            events = parse_events((await stream).text)
            assert events[-1].name == "end"
            assert events[-1].data["status"] == "interrupted"
    await _until(lambda: not asyncio.all_tasks() - before)
    async with running_server(create_app(config)) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=20) as client:
            (run,) = (await client.get(f"/threads/{thread_id}/runs")).json()
            assert (run["status"], run["cancel_reason"]) == ("interrupted", "shutdown")
            assert (await client.get(f"/threads/{thread_id}")).json()["status"] != "busy"
            result = await client.post(f"/threads/{thread_id}/runs/wait", json=said("hello"))
            assert answer(result.json()) == "echo: hello"
