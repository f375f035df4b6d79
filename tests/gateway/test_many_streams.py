"""Hundreds of streams at once: each tells everything, and nothing stays behind."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakSet

import psutil
import pytest
from support import gate as gates
from support.gateways import RunningServer, parse_events, running_server, said
from support.hosts import scripted_config

from deerflow.gateway.app import create_app
from deerflow.gateway.responses import LastingResponse
from deerflow.runs import recent
from deerflow.runs.active import ActiveRun
from deerflow.runs.events.log import EventReader

MIB = 1024 * 1024

TALKING = {
    "when": "^talk",
    "turns": [
        {"text": "before the gate", "tool_calls": [{"name": "pass_gate", "args": {}, "id": "call-1"}]},
        {"text": "one word after the other, " * 8},
    ],
}


@dataclass(frozen=True)
class Crowd:
    """So many runs at once, each followed by so many readers, again and again.

    Memory is measured from the wave on after which things have settled: that of objects, and, where a bound
    is given, that of the process, which is the allocator's as well and says little beside many other tests.
    """

    runs: int
    readers: int
    waves: int
    settled_after: int
    grown_blocks: int
    grown_bytes: int | None = None


@dataclass
class Stream:
    """What one reader gets, on a connection of its own: a pool of hundreds would be the slowest part."""

    port: int
    request: str
    body: bytes = b""
    began: asyncio.Event = field(default_factory=asyncio.Event)
    head: str = ""

    async def read(self) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(self._request())
            self.head = (await reader.readuntil(b"\r\n\r\n")).decode()
            assert self.head.startswith("HTTP/1.1 200 "), self.head
            parts: list[bytes] = []
            while size := int(await reader.readline(), 16):
                parts.append((await reader.readexactly(size + 2))[:-2])
                self.began.set()
            return b"".join(parts).decode()
        finally:
            writer.close()

    @property
    def location(self) -> str:
        (found,) = re.findall(r"\nlocation: (\S+)", self.head, re.IGNORECASE)
        return str(found)

    def _request(self) -> bytes:
        lines = [
            f"{self.request} HTTP/1.1",
            f"Host: 127.0.0.1:{self.port}",
            "Content-Type: application/json",
            f"Content-Length: {len(self.body)}",
            "Last-Event-ID: -1",
            "Connection: close",
        ]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


@pytest.mark.parametrize(
    "crowd",
    [
        pytest.param(
            Crowd(runs=50, readers=10, waves=2, settled_after=1, grown_blocks=5_000), id="fifty-runs"
        ),
        pytest.param(
            Crowd(500, readers=1, waves=6, settled_after=3, grown_blocks=20_000, grown_bytes=16 * MIB),
            id="soak",
            marks=[pytest.mark.soak, pytest.mark.timeout(1800)],
        ),
    ],
)
async def test_five_hundred_streams_tell_everything_and_leave_memory_flat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crowd: Crowd
) -> None:
    monkeypatch.setattr(recent, "KEPT_RUNS", 20)  # reached before memory is measured
    before = WeakSet(_alive())  # what earlier tests left may go meanwhile
    async with _served(tmp_path) as server:
        tasks = asyncio.all_tasks()
        for wave in range(1, crowd.waves + 1):
            monkeypatch.setattr(gates, "gate", asyncio.Event())
            await _wave(server, crowd)
            async with asyncio.timeout(120):
                while asyncio.all_tasks() - tasks:
                    await asyncio.sleep(0.01)
            for _ in range(20):  # what the loop still holds of tasks that have ended goes with its next turns
                await asyncio.sleep(0)
            gc.collect()
            if wave == crowd.settled_after:
                resident_before, blocks_before = psutil.Process().memory_info().rss, sys.getallocatedblocks()
        grown_blocks = sys.getallocatedblocks() - blocks_before
        grown_bytes = psutil.Process().memory_info().rss - resident_before
        assert [thing for thing in _alive() if thing not in before] == []
        print(f"{crowd}: {grown_bytes / MIB:.1f} MiB, {grown_blocks} blocks more")
        assert grown_blocks < crowd.grown_blocks
        assert crowd.grown_bytes is None or grown_bytes < crowd.grown_bytes


async def _wave(server: RunningServer, crowd: Crowd) -> None:
    """Let every stream begin before any may end; each must tell all events, once and in order."""
    port = int(server.url.rpartition(":")[2])
    body = json.dumps(said("talk", stream_mode=["values", "messages-tuple"])).encode()
    first = [Stream(port, "POST /runs/stream", body) for _ in range(crowd.runs)]
    async with asyncio.TaskGroup() as group:
        reads = [[group.create_task(stream.read())] for stream in first]
        await asyncio.gather(*(stream.began.wait() for stream in first))
        for stream, of_run in zip(first, reads, strict=True):
            more = [Stream(port, f"GET {stream.location}") for _ in range(crowd.readers - 1)]
            of_run += [group.create_task(joined.read()) for joined in more]
            await asyncio.gather(*(joined.began.wait() for joined in more))
        assert len(server.host.runs.active()) == crowd.runs
        gates.gate.set()
    for of_run in reads:
        texts = {read.result().replace(": heartbeat\n\n", "") for read in of_run}
        assert len(texts) == 1
        events = parse_events(texts.pop())
        assert [int(event.id or 0) for event in events] == list(range(1, len(events) + 1))
        assert (events[-1].name, events[-1].data["status"]) == ("end", "success")
        said_in_pieces = [event.data[0]["content"] for event in events if event.name == "messages"]
        assert "".join(said_in_pieces).endswith("one word after the other, ")


@asynccontextmanager
async def _served(home: Path) -> AsyncIterator[RunningServer]:
    sections: dict[str, Any] = {
        "tools": [{"use": "support.gate:pass_gate"}],
        "title": {"enabled": False},
        "shutdown": {"drain_seconds": 0.05},
        "database": {"backend": "sqlite"},
    }
    async with running_server(create_app(scripted_config(home, [TALKING], **sections))) as server:
        yield server


def _alive() -> list[Any]:
    """What a stream needs, and nobody after it."""
    gc.collect()
    return [thing for thing in gc.get_objects() if type(thing) in (LastingResponse, EventReader, ActiveRun)]
