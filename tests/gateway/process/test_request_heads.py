"""Heads of requests are bounded before anybody is asked who is calling."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest
from support.gateways import SLOW, running_server, said
from support.hosts import scripted_config

from deerflow.gateway.app import create_app
from deerflow.gateway.process import request_heads
from deerflow.gateway.process.request_heads import MAX_HEAD_BYTES

KIB = 1024


@asynccontextmanager
async def _port(home: Path) -> AsyncIterator[int]:
    config = scripted_config(home, shutdown={"drain_seconds": 0.01})
    async with running_server(create_app(config)) as server:
        yield int(server.url.rpartition(":")[2])


async def _answer(port: int, parts: Sequence[bytes]) -> str:
    """What comes back on a connection of its own, to its end; the server may close it before all is sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received = bytearray()

    async def read() -> None:
        try:
            while data := await reader.read(KIB):
                received.extend(data)
        except ConnectionError:
            pass

    reading = asyncio.create_task(read())
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        await asyncio.wait_for(reading, 20)
    except ConnectionError:
        await asyncio.wait_for(reading, 20)
    finally:
        writer.close()
    return received.decode()


LINE = b"GET /ok HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
POST = b"POST /threads HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([LINE, b"X: " + b"x" * (MAX_HEAD_BYTES + 1) + b"\r\n\r\n"], id="one header"),
        pytest.param([LINE, b"X: yyyy\r\n" * (MAX_HEAD_BYTES // 4), b"\r\n"], id="many headers"),
        pytest.param([LINE, b"X: ", *[b"x" * 32 * KIB] * 64], id="a header without an end"),
        pytest.param([LINE, *[b"X: yyyy\r\n" * 4096] * 64], id="headers without an end"),
        pytest.param([b"GET /ok?", *[b"x" * 32 * KIB] * 64], id="a path without an end"),
    ],
)
async def test_larger_heads_are_refused_while_they_come(tmp_path: Path, parts: Sequence[bytes]) -> None:
    async with _port(tmp_path) as port:
        answer = await _answer(port, parts)
        assert answer.startswith("HTTP/1.1 431 ") or answer == ""  # lost where the server closes first
        assert (await _answer(port, [LINE, b"\r\n"])).startswith("HTTP/1.1 200 ")


async def test_refusal_says_why(tmp_path: Path) -> None:
    async with _port(tmp_path) as port:
        answer = await _answer(port, [LINE + b"X: " + b"x" * (MAX_HEAD_BYTES + 1) + b"\r\n\r\n"])
        assert answer.endswith('{"detail":"the request\'s headers are larger than 65536 bytes"}')


async def test_headers_after_a_body_count_too(tmp_path: Path) -> None:
    async with _port(tmp_path) as port:
        chunked = [POST, b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"]
        endless = [*chunked, b"X: ", *[b"x" * 32 * KIB] * 64]
        answer = await _answer(port, endless)
        assert "HTTP/1.1 200 " not in answer
        assert (await _answer(port, [*chunked, b"\r\n"])).startswith("HTTP/1.1 200 ")


async def test_large_bodies_and_long_heads_within_the_limit_pass(tmp_path: Path) -> None:
    body = b'{"metadata": {"text": "' + b"x" * (2 * 1024 * KIB) + b'"}}'
    head = POST + b"X: " + b"x" * 60_000 + b"\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with _port(tmp_path) as port:
        parts = [head, *(body[start : start + 32 * KIB] for start in range(0, len(body), 32 * KIB))]
        assert (await _answer(port, parts)).startswith("HTTP/1.1 200 ")


@pytest.mark.parametrize("parts", [[], [LINE], [b"G"]], ids=["nothing", "half a head", "a letter"])
async def test_heads_that_do_not_come_to_their_end_are_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: Sequence[bytes]
) -> None:
    monkeypatch.setattr(request_heads, "HEAD_SECONDS", 0.05)
    async with _port(tmp_path) as port:
        assert await _answer(port, parts) == ""


async def test_a_request_that_came_whole_may_take_its_time(tmp_path: Path) -> None:
    config = scripted_config(tmp_path, [SLOW], shutdown={"drain_seconds": 0.01})
    async with running_server(create_app(config)) as server:
        port = int(server.url.rpartition(":")[2])
        _, silent = await asyncio.open_connection("127.0.0.1", port)
        _, asking = await asyncio.open_connection("127.0.0.1", port)
        body = orjson.dumps(said("slow"))
        asking.write(b"POST /runs/wait HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        asking.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        async with asyncio.timeout(20):
            while not server.host.runs.active():
                await asyncio.sleep(0.01)
        waits = [connection._head_timer is not None for connection in server.server.server_state.connections]
        assert sorted(waits) == [False, True]
        for writer in (silent, asking):
            writer.close()
