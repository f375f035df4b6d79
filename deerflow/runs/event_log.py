"""The live events of one run: appended by the run, read by any number of subscribers.

Bounded by count and by bytes. The run never waits for a reader; a reader that falls behind is told
of the gap and goes on with the oldest event that is left.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

from deerflow.runs.serialize import encode_json

MAX_EVENTS = 10_000
MAX_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class RunEvent:
    """One event. `id` rises by one within a run, from 1; a gap marker has none. `payload` is JSON."""

    id: int | None
    name: str
    payload: bytes

    @cached_property
    def data(self) -> Any:
        """The payload as plain values, detached from the run."""
        return orjson.loads(self.payload)


class EventLog:
    """The events of one run. Lives on one event loop."""

    def __init__(self, *, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> None:
        self._events: deque[RunEvent] = deque()
        self._bytes = 0
        self._last_id = 0
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._closed = False
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def last_id(self) -> int:
        """The id of the newest event; 0 before the first."""
        return self._last_id

    @property
    def closed(self) -> bool:
        """Whether the last event has been appended."""
        return self._closed

    def publish(self, name: str, data: Any) -> None:
        """Append one event; drops the oldest ones where a bound is passed. Nothing after `close`."""
        if self._closed:
            return
        self._last_id += 1
        event = RunEvent(self._last_id, name, encode_json(data))
        self._events.append(event)
        self._bytes += len(event.payload)
        while len(self._events) > 1 and (
            len(self._events) > self._max_events or self._bytes > self._max_bytes
        ):
            self._bytes -= len(self._events.popleft().payload)
        self._wake()

    def close(self) -> None:
        """No further events: every subscriber ends after what is there."""
        self._closed = True
        self._wake()

    async def subscribe(self, after_id: int | None = None) -> AsyncGenerator[RunEvent]:
        """The events of `batches`, one by one."""
        async with aclosing(self.batches(after_id)) as batches:
            async for batch in batches:
                for event in batch:
                    yield event

    def batches(self, after_id: int | None = None) -> AsyncGenerator[list[RunEvent]]:
        """Events after `after_id` (0: from the start; None: only what comes from now on), until the end.

        Each batch holds what is there, at most 64 events; the first event of one may be a gap marker.
        """
        return self._read(self._last_id if after_id is None else after_id)

    async def _read(self, position: int) -> AsyncGenerator[list[RunEvent]]:
        while True:
            gap = self._gap_after(position)
            if gap is not None:
                position = (self._events[0].id or 1) - 1
            batch = self._after(position)
            if batch:
                position = batch[-1].id or position
                yield batch if gap is None else [gap, *batch]
            elif self._closed:
                return
            else:
                await self._next()

    def _gap_after(self, position: int) -> RunEvent | None:
        oldest = self._events[0].id if self._events else None
        if oldest is None or oldest <= position + 1:
            return None
        return RunEvent(None, "gap", encode_json({"after": position, "next": oldest}))

    def _after(self, position: int) -> list[RunEvent]:
        if not self._events or position >= self._last_id:
            return []
        first = self._events[0].id or 0
        start = max(0, position + 1 - first)
        # Bounded batches: a reader that stopped reading must not hold a copy of everything.
        return [self._events[i] for i in range(start, min(len(self._events), start + 64))]

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def _next(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)
