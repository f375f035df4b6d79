"""Jobs of another service: the same results and errors as local ones."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.axonx_service import TEXT, Served, served
from support.loop_clock import put_forward
from support.ports import free_port

from axonx import Application, BaseStep
from axonx.client.http import HttpClient
from axonx.components.job import LogEvent, ProgressEvent
from axonx.errors import (
    ArgumentsTypeError,
    ConfigurationError,
    InvalidArgumentsError,
    NotRunningError,
    StreamingNotSupportedError,
    TargetError,
    UnknownJobError,
)


async def work(step: BaseStep) -> None:
    await step.emit(ProgressEvent(name="a", percentage=50))
    await step.emit(LogEvent(content="one\ntwo\u2028three\x85"))
    step.response.answer = {"got": dict(step.context)}
    step.response.metadata["n"] = 1


async def fail(step: BaseStep) -> None:
    await step.emit(ProgressEvent(name="a"))
    raise LookupError("x")


JOBS: dict[str, Any] = {
    "work": work,
    "fail": fail,
    "strict": {"steps": [{"backend": "demo_step"}], "requires_auth": False, "parameters": TEXT},
    "plain": {"steps": [{"backend": "demo_step"}], "requires_auth": False, "enable_stream": False},
    "a b?#ä": {"steps": [{"backend": "demo_step"}], "requires_auth": False},
}


@asynccontextmanager
async def near(tmp_path: Path, *addresses: str, token: str | None = None) -> AsyncIterator[Application]:
    """An application without Jobs that may call the addresses."""
    targets = [{"address": address, "token": token} for address in addresses]
    async with Application(workspace_dir=tmp_path / "near", targets=targets) as app:
        yield app


@asynccontextmanager
async def pair(tmp_path: Path) -> AsyncIterator[tuple[Application, Served, str]]:
    async with served(tmp_path / "far", JOBS) as far:
        target = far.address.removeprefix("http://")
        async with near(tmp_path, target) as app:
            yield app, far, target


async def test_a_call_at_a_target_answers_as_it_does_there(tmp_path: Path) -> None:
    async with pair(tmp_path) as (app, far, target):
        for name, arguments in (
            ("work", {"a": [1, {"b": None}]}),
            ("fail", {}),
            ("a b?#ä", {}),
            ("plain", {}),
        ):
            local = await far.app.run_job(name, arguments)
            assert await app.run_job(name, arguments, target=target) == local
            assert await app.run_job(name, arguments, target=far.address) == local


async def test_a_stream_from_a_target_is_the_stream_there(tmp_path: Path) -> None:
    async with pair(tmp_path) as (app, far, target):
        for name in ("work", "fail"):
            local = [event async for event in far.app.stream_job(name, {"a": 1})]
            remote = [event async for event in app.stream_job(name, {"a": 1}, target=target)]
            assert remote == local
            assert [type(event) for event in remote] == [type(event) for event in local]


@pytest.mark.parametrize(
    ("name", "arguments", "error", "message"),
    [
        ("nope", {}, UnknownJobError, "Unknown job: 'nope'"),
        ("a/b", {}, UnknownJobError, "Unknown job: 'a/b'"),
        (
            "strict",
            {},
            InvalidArgumentsError,
            "Invalid arguments for job 'strict': 'text' is a required property",
        ),
        ("strict", {"_axonx_argv": 1}, InvalidArgumentsError, "Reserved Job argument: _axonx_argv"),
        ("strict", [1], ArgumentsTypeError, "expected a mapping of names to values, not list"),
        ("strict", {"text": object()}, InvalidArgumentsError, "Invalid arguments for job 'strict': not JSON"),
        ("strict", {"text": "\ud800"}, InvalidArgumentsError, "Invalid arguments for job 'strict': not JSON"),
    ],
)
async def test_mistakes_of_the_caller_raise_as_they_do_locally(
    tmp_path: Path, name: str, arguments: Any, error: type[Exception], message: str
) -> None:
    async with pair(tmp_path) as (app, _, target):
        with pytest.raises(error, match=message):
            await app.run_job(name, arguments, target=target)
        with pytest.raises(error, match=message):
            await anext(app.stream_job(name, arguments, target=target))


async def test_a_job_without_streaming_raises_as_it_does_locally(tmp_path: Path) -> None:
    async with pair(tmp_path) as (app, _, target):
        with pytest.raises(StreamingNotSupportedError, match="Job 'plain' does not support streaming"):
            await anext(app.stream_job("plain", target=target))


async def test_targets_must_be_configured_and_readable(tmp_path: Path) -> None:
    async with near(tmp_path, "127.0.0.1:9") as app:
        with pytest.raises(TargetError, match="AxonX target is not configured: 'http://h:1'"):
            await app.run_job("j", target="http://h:1")
        with pytest.raises(TargetError, match="Invalid target: 'h'; expected host:port or HTTP"):
            app.stream_job("j", target="h")
    with pytest.raises(NotRunningError):
        await app.run_job("j", target="127.0.0.1:9")
    with pytest.raises(NotRunningError):
        app.stream_job("j", target="127.0.0.1:9")


async def test_the_token_of_the_target_is_sent(tmp_path: Path) -> None:
    jobs: dict[str, Any] = {"private": {"steps": [{"backend": "demo_step"}]}}
    async with served(tmp_path / "far", jobs, token="s3cret") as far:
        async with near(tmp_path, far.address, token="s3cret") as app:
            assert (await app.run_job("private", target=far.address)).answer == "Hello, AxonX!"
        async with near(tmp_path, far.address, token="wrong") as app:
            response = await app.run_job("private", target=far.address)
            (event,) = [event async for event in app.stream_job("private", target=far.address)]
        assert not response.success
        assert response.answer == (
            f"RemoteCallError: {far.address}: it refused the token (401); set the right one under targets"
        )
        assert event.model_dump(exclude={"kind"}) == response.model_dump()


async def test_calls_pass_through_a_service_to_its_targets(tmp_path: Path) -> None:
    async with served(tmp_path / "far", JOBS) as far:
        targets = [{"address": far.address}]
        async with served(tmp_path / "middle", {}, token="t", targets=targets) as middle:
            middle.http.headers["authorization"] = "Bearer t"
            response = await middle.call("work", {"a": 1}, target=far.address)
            assert response.json() == (await far.call("work", {"a": 1})).json()
            unknown = await middle.call("nope", target=far.address)
            assert (unknown.status_code, unknown.json()) == (404, {"detail": "Unknown job"})
            wrong = await middle.http.post("/jobs/strict", json={"arguments": {}, "target": far.address})
            assert wrong.status_code == 422


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def raw_server(handle: Handler) -> AsyncIterator[str]:
    """A server whose bytes the test writes itself; yields its address."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            await handle(reader, writer)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def answering(content: bytes) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(content)
        await writer.drain()

    return handle


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
FIRST = b'event: progress\ndata: {"kind":"progress","name":"a"}\n\n'


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


@pytest.mark.parametrize(
    ("content", "events", "answer"),
    [
        (STREAM + chunk(FIRST), 1, "RemoteProtocolError"),
        (STREAM + chunk(FIRST) + b"0\r\n\r\n", 1, "Stream produced no terminal result"),
        (STREAM + b"0\r\n\r\n", 0, "Stream produced no terminal result"),
        (STREAM + chunk(b"data: {}\n\n") + b"0\r\n\r\n", 0, "it answered something that is no result"),
        (
            STREAM + chunk(FIRST + b"data: \xff\n\n") + b"0\r\n\r\n",
            1,
            "it answered something that is no result",
        ),
        (b"", 0, "RemoteProtocolError"),
        (b"nonsense\r\n\r\n", 0, "RemoteProtocolError"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 0, "it answered something that is no result"),
        (b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nhi", 0, "it answered 500: hi; is there an AxonX"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://h/\r\nContent-Length: 0\r\n\r\n", 0, "it answered 302"),
        (
            b'HTTP/1.1 404 No\r\nContent-Length: 22\r\n\r\n{"detail":"Not Found"}',
            0,
            "it answered 404: Not Found",
        ),
    ],
)
async def test_whatever_a_broken_service_does_the_stream_ends_with_one_failure(
    tmp_path: Path, content: bytes, events: int, answer: str
) -> None:
    async with raw_server(answering(content)) as address, near(tmp_path, address) as app:
        received = [event async for event in app.stream_job("j", target=address)]
        assert [event.kind for event in received] == ["progress"] * events + ["result"]
        result = received[-1]
        assert not result.success  # type: ignore[union-attr]
        assert answer in result.answer  # type: ignore[union-attr]
        response = await app.run_job("j", target=address)
        assert not response.success


async def test_a_service_that_is_down_is_a_failure_until_it_is_up_again(tmp_path: Path) -> None:
    service = {"port": free_port()}
    async with served(tmp_path / "far", JOBS, service=service) as far:
        pass
    async with near(tmp_path, far.address) as app:
        down = await app.run_job("work", target=far.address)
        assert not down.success
        assert down.answer.startswith(f"RemoteCallError: {far.address}: ConnectError: ")
        async with served(tmp_path / "far", JOBS, service=service):
            assert (await app.run_job("work", target=far.address)).success
        assert not (await app.run_job("work", target=far.address)).success


async def test_leaving_a_call_cancels_the_job_there(tmp_path: Path) -> None:
    begun, cleaned = asyncio.Event(), asyncio.Event()

    async def wait(step: BaseStep) -> None:
        cleaned.clear()
        begun.set()
        await step.emit(ProgressEvent(name="a"))
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    async with served(tmp_path / "far", {"wait": wait}) as far, near(tmp_path, far.address) as app:
        async with asyncio.timeout(60):
            call = asyncio.create_task(app.run_job("wait", target=far.address))
            await begun.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await cleaned.wait()
            async with aclosing(app.stream_job("wait", target=far.address)) as events:
                await anext(events)
                assert not cleaned.is_set()
            await cleaned.wait()


async def test_closing_ends_remote_calls_that_are_running(tmp_path: Path) -> None:
    begun = asyncio.Semaphore(0)

    async def wait(step: BaseStep) -> None:
        begun.release()
        await asyncio.Event().wait()

    before = asyncio.all_tasks()
    async with served(tmp_path / "far", {"wait": wait}) as far:
        async with near(tmp_path, far.address) as app:
            call = asyncio.create_task(app.run_job("wait", target=far.address))
            stream = app.stream_job("wait", target=far.address)
            reading = asyncio.create_task(anext(stream))
            late = app.stream_job("wait", target=far.address)
            async with asyncio.timeout(60):
                await begun.acquire()
                await begun.acquire()
                await app.close()
                assert not (await call).success
                assert (await reading).success is False  # type: ignore[union-attr]
        assert [event.answer async for event in late] == ["NotRunningError: Application is not running"]  # type: ignore[union-attr]
    assert asyncio.all_tasks() <= before


async def test_a_call_may_be_limited_in_time(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def wait(step: BaseStep) -> None:
        await step.emit(ProgressEvent(name="a"))
        begun.set()
        await asyncio.Event().wait()

    loop = asyncio.get_running_loop()
    async with served(tmp_path, {"wait": wait}) as far:
        async with HttpClient(address=far.address, timeout_seconds=60) as client:
            call = asyncio.create_task(client.run_job("wait"))
            await begun.wait()
            put_forward(loop, 60)
            response = await call
            events = []
            async for event in client.stream_job("wait"):
                events.append(event)
                put_forward(loop, 60)
    expected = f"RemoteCallError: {far.address}: there was no result within 60 s"
    assert (response.success, response.answer) == (False, expected)
    assert [event.kind for event in events] == ["progress", "result"]
    assert events[-1].answer == expected  # type: ignore[union-attr]


async def test_the_limit_does_not_count_what_the_reader_does(tmp_path: Path) -> None:
    async with served(tmp_path, {"work": work}) as far:
        async with HttpClient(address=far.address, timeout_seconds=60) as client:
            async with asyncio.timeout(5), aclosing(client.stream_job("work")) as events:
                async for _ in events:
                    await asyncio.sleep(0)


async def test_a_client_by_hand_is_checked_and_must_be_started() -> None:
    for seconds in (0, -1, float("inf"), float("nan")):
        with pytest.raises(ConfigurationError, match="timeout_seconds"):
            HttpClient(address="h:1", timeout_seconds=seconds)
    with pytest.raises(TargetError):
        HttpClient(address="no port")
    with pytest.raises(NotRunningError):
        await HttpClient(address="h:1").run_job("j")


def test_a_missing_package_is_named_when_the_application_is_built() -> None:
    code = (
        "import sys; sys.modules['httpx'] = None\n"
        "from axonx import Application\n"
        "Application()\n"
        "try:\n    Application(targets=[{'address': 'h:1'}])\n"
        "except ValueError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("client:http needs the package 'httpx', which is not installed")
