"""A Job's events over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.axonx_app import until
from support.axonx_service import Served, parse_frames, served

from axonx import BaseJob, BaseStep, provider
from axonx.components.job import LogEvent, ProgressEvent, ResultEvent
from axonx.service.sse import frames


async def work(step: BaseStep) -> None:
    await step.emit(ProgressEvent(name="a", percentage=50))
    await step.emit(LogEvent(content="one\ntwo\r\nthree\u2028four\x85 Zoë"))
    step.response.answer = "line\nline"


async def test_a_stream_is_events_and_then_the_result(tmp_path: Path) -> None:
    async with served(tmp_path, {"work": work}) as service:
        response = await service.http.post("/jobs/work/events", json={"arguments": {}})
        local = [event async for event in service.app.stream_job("work")]
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-accel-buffering"] == "no"
    frames = parse_frames(response.text)
    assert [kind for kind, _ in frames] == ["progress", "log", "result"]
    assert [data for _, data in frames] == [event.model_dump(mode="json") for event in local]


async def test_the_frames_are_exactly_these(tmp_path: Path) -> None:
    async def fail(step: BaseStep) -> None:
        step.response.success = False
        step.response.answer = "no"

    async with served(tmp_path, {"fail": fail}) as service:
        response = await service.http.post("/jobs/fail/events", json={})
    assert response.content == (
        b'event: result\ndata: {"answer":"no","success":false,"metadata":{},"kind":"result"}\n\n'
    )


async def test_plain_and_streamed_results_agree_for_every_ending(tmp_path: Path) -> None:
    async def raises(step: BaseStep) -> None:
        await step.emit(ProgressEvent(name="a"))
        step.response.answer = "half"
        raise LookupError("x")

    async def emits_a_result(step: BaseStep) -> None:
        await step.emit(ResultEvent(answer="mine"))  # type: ignore[arg-type]

    async def cancels_itself(step: BaseStep) -> None:
        raise asyncio.CancelledError

    async def bad_metadata(step: BaseStep) -> None:
        step.response.metadata = "text"  # type: ignore[assignment]

    bodies: dict[str, Any] = {
        each.__name__: each for each in (work, raises, emits_a_result, cancels_itself, bad_metadata)
    }
    async with served(tmp_path, bodies) as service:
        for name in bodies:
            plain = (await service.call(name)).json()
            streamed = await service.events(name)
            assert [kind for kind, _ in streamed].count("result") == 1, name
            assert streamed[-1] == ("result", {**plain, "kind": "result"}), name


async def test_a_custom_stream_ends_with_one_result_too(tmp_path: Path) -> None:
    @provider("custom")
    class Custom(BaseJob):
        async def stream(self, arguments: Any, system: Any) -> AsyncIterator[Any]:
            yield ProgressEvent(name="a")
            if arguments["end"] == "raise":
                raise OSError("gone")
            if arguments["end"] == "twice":
                yield ResultEvent(answer="first")
                yield ResultEvent(answer="second")

    jobs: dict[str, Any] = {"custom": {"backend": "custom", "requires_auth": False}}
    async with served(tmp_path, jobs, providers=(Custom,)) as service:
        for end, answer in {
            "raise": "OSError: gone",
            "none": "Stream produced no terminal result",
            "twice": "second",
        }.items():
            plain = (await service.call("custom", {"end": end})).json()
            streamed = await service.events("custom", {"end": end})
            assert plain["answer"] == answer
            assert streamed[1:] == [("result", {**plain, "kind": "result"})]


async def test_jobs_without_streaming_are_not_found_as_streams(tmp_path: Path) -> None:
    jobs: dict[str, Any] = {"plain": {"steps": [], "requires_auth": False, "enable_stream": False}}
    async with served(tmp_path, jobs) as service:
        assert (await service.call("plain")).status_code == 200
        response = await service.http.post("/jobs/plain/events", json={})
        assert response.status_code == 404
        assert response.json() == {"detail": "Job 'plain' does not support streaming"}


async def test_comments_keep_a_quiet_stream_alive(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def quiet(step: BaseStep) -> None:
        await go.wait()

    async with served(tmp_path, {"quiet": quiet}, service={"keep_alive_seconds": 0.02}) as service:
        comments = 0
        received = b""
        async with service.http.stream("POST", "/jobs/quiet/events", json={}) as response:
            async for chunk in response.aiter_raw():
                received += chunk
                comments = received.count(b": keep-alive\n\n")
                if comments >= 2:
                    go.set()
    assert received.startswith(b": keep-alive\n\n: keep-alive\n\n")
    assert parse_frames(received.decode())[-1][0] == "result"


async def test_events_arrive_while_the_job_runs(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def staged(step: BaseStep) -> None:
        await step.emit(ProgressEvent(name="first"))
        await go.wait()

    async with served(tmp_path, {"staged": staged}) as service:
        async with service.http.stream("POST", "/jobs/staged/events", json={}) as response:
            lines = response.aiter_lines()
            assert await anext(lines) == "event: progress"
            go.set()
            assert [line async for line in lines if line.startswith("event")] == ["event: result"]


async def test_a_reader_that_stops_reading_holds_up_only_its_own_job(tmp_path: Path) -> None:
    emitted = 0
    ended = asyncio.Event()

    async def flood(step: BaseStep) -> None:
        nonlocal emitted
        try:
            for _ in range(100_000):
                await step.emit(LogEvent(content="x" * 10_000))
                emitted += 1
        finally:
            ended.set()

    async with served(tmp_path, {"flood": flood, "work": work}) as service:
        host, port = service.address.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port), limit=1024)
        head = f"POST /jobs/flood/events HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        writer.write(head.encode() + b"Content-Length: 2\r\n\r\n{}")
        before = 0
        async with asyncio.timeout(60):
            await until(lambda: emitted)
            while emitted != before:  # until it stands still
                before = emitted
                await asyncio.sleep(0.1)
            assert emitted < 100_000
            assert (await service.call("work")).json()["success"]
            writer.transport.abort()
            await ended.wait()


async def test_a_stream_that_breaks_ends_with_the_failure() -> None:
    async def broken() -> Any:
        yield ProgressEvent(name="a")
        raise RuntimeError("broken \ud800")

    lines = [line async for line in frames(broken())]
    assert json.loads(lines[-1].split(b"data: ")[1]) == {
        "answer": "RuntimeError: broken ?",
        "success": False,
        "metadata": {},
        "kind": "result",
    }


async def test_nothing_follows_the_result_and_what_is_left_is_closed() -> None:
    closed = False

    async def talkative() -> Any:
        nonlocal closed
        try:
            yield ResultEvent(answer="done")
            yield ProgressEvent(name="late")
        finally:
            closed = True

    assert len([line async for line in frames(talkative())]) == 1
    assert closed


async def test_an_event_that_utf8_cannot_hold_ends_the_stream_with_a_failure() -> None:
    async def odd() -> Any:
        yield LogEvent(content="\ud800")
        yield ResultEvent(answer="never")

    (line,) = [line async for line in frames(odd())]
    assert b'"success":false' in line


@pytest.mark.parametrize("count", [1, 20])
async def test_many_readers_each_get_their_own_stream(tmp_path: Path, count: int) -> None:
    async def named(step: BaseStep) -> None:
        for index in range(5):
            await step.emit(ProgressEvent(name=f"{step.context['n']}-{index}"))
            await asyncio.sleep(0)
        step.response.answer = step.context["n"]

    async def one(service: Served, number: int) -> None:
        streamed = await service.events("named", {"n": number})
        assert [data["name"] for _, data in streamed[:-1]] == [f"{number}-{index}" for index in range(5)]
        assert streamed[-1][1]["answer"] == number

    async with served(tmp_path, {"named": named}) as service:
        await asyncio.gather(*(one(service, number) for number in range(count)))
