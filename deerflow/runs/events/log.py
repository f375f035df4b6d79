"""The live events of one run: appended by the run, read by any number of subscribers.

Bounded by count and by bytes. The run never waits for a reader; a reader that falls behind is told
of the gap and goes on with the oldest event that is left.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import orjson

from deerflow.runs.events.budget import EventBudget
from deerflow.runs.serialize import encode_json

MAX_EVENTS = 10_000
MAX_BYTES = 32 * 1024 * 1024
BATCH_EVENTS = 64
BATCH_BYTES = 1024 * 1024
IDS_PER_ATTEMPT = 1_000_000_000
"""How far the ids of a run that was begun again lie from those before: none is ever given out twice."""


@dataclass(frozen=True)
class RunEvent:
    """One event. `id` rises by one within an attempt, from 1; a gap marker has none. `payload` is JSON.

    `at_ms` is when it was published, in milliseconds since 1970; None where that is not known.
    """

    id: int | None
    name: str
    payload: bytes
    at_ms: int | None = field(default=None, compare=False)

    @cached_property
    def data(self) -> Any:
        """The payload as plain values, detached from the run."""
        return orjson.loads(self.payload)


class EventLog:
    """The events of one run. Lives on one event loop.

    `attempt` is how often hosts have begun the run, with this time; 0 counts as the first. `on_change` is
    called after each event, and at the end. `budget` bounds the log together with others, until its end.
    """

    def __init__(
        self,
        *,
        max_events: int = MAX_EVENTS,
        max_bytes: int = MAX_BYTES,
        attempt: int = 0,
        budget: EventBudget | None = None,
    ) -> None:
        self._events: deque[RunEvent] = deque()
        self._bytes = 0
        self.id_before_first = max(0, attempt - 1) * IDS_PER_ATTEMPT
        self._last_id = self.id_before_first
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._budget = budget
        if budget is not None:
            budget.join(self)
        self._closed = False
        self._waiters: set[asyncio.Future[None]] = set()
        self.opened_at = time.monotonic()
        self.on_change: Callable[[], None] | None = None
        # When the first event of each kind came: `metadata` is the beginning, `messages` the first token.
        self.first_moments: dict[str, float] = {}

    @property
    def last_id(self) -> int:
        """The id of the newest event; before the first, the one below it."""
        return self._last_id

    @property
    def dropped_before(self) -> int | None:
        """The id of the oldest event that is left; None where none was dropped."""
        oldest = self._events[0].id if self._events else None
        return None if oldest == self.id_before_first + 1 else oldest

    @property
    def size_bytes(self) -> int:
        """How much the kept events weigh."""
        return self._bytes

    @property
    def closed(self) -> bool:
        """Whether the last event has been appended."""
        return self._closed

    def publish(self, name: str, data: Any) -> None:
        """Append one event; drops the oldest ones where a bound is passed. Nothing after `close`."""
        if self._closed:
            return
        self._last_id += 1
        kind = name.partition("|")[0].partition("/")[0]
        if kind not in self.first_moments:
            self.first_moments[kind] = time.monotonic()
        event = RunEvent(self._last_id, name, encode_json(data), time.time_ns() // 1_000_000)
        before = self._bytes
        self._events.append(event)
        self._bytes += len(event.payload)
        while len(self._events) > 1 and (
            len(self._events) > self._max_events or self._bytes > self._max_bytes
        ):
            self._bytes -= len(self._events.popleft().payload)
        if self._budget is not None:
            self._budget.note(self._bytes - before)
        self._wake()

    def shed(self, most_bytes: int) -> int:
        """Drop the oldest events until `most_bytes` are left, or one event. Returns the bytes freed."""
        before = self._bytes
        while len(self._events) > 1 and self._bytes > most_bytes:
            self._bytes -= len(self._events.popleft().payload)
        return before - self._bytes

    def close(self) -> None:
        """No further events: every subscriber ends after what is there."""
        if self._budget is not None and not self._closed:
            self._budget.leave(self)
        self._closed = True
        self._wake()

    def reader(self, after_id: int | None = None) -> EventReader:
        """A reader of what comes after `after_id`; 0: from the start, None: only what comes from now on."""
        return EventReader(self, self._last_id if after_id is None else after_id)

    def batches(self, after_id: int | None = None) -> AsyncGenerator[list[RunEvent]]:
        """The batches of a `reader`, until the end."""
        return _batches(self.reader(after_id))

    async def subscribe(self, after_id: int | None = None) -> AsyncGenerator[RunEvent]:
        """The events of `batches`, one by one."""
        async with aclosing(self.batches(after_id)) as batches:
            async for batch in batches:
                for event in batch:
                    yield event

    def after(self, event_id: int) -> list[RunEvent]:
        """The oldest events after `event_id` that are still there: at most 64, and about a megabyte."""
        if not self._events or event_id >= self._last_id:
            return []
        oldest = self._events[0].id or 0
        start = max(0, event_id + 1 - oldest)
        batch: list[RunEvent] = []
        size_bytes = 0
        # Bounded batches: a reader that stopped reading must not hold everything for itself.
        for index in range(start, min(len(self._events), start + BATCH_EVENTS)):
            batch.append(self._events[index])
            size_bytes += len(batch[-1].payload)
            if size_bytes > BATCH_BYTES:
                break
        return batch

    async def wait(self, timeout_seconds: float | None = None) -> None:
        """Return when an event has been appended, the log was closed, or the time is over."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiters.add(waiter)
        timer = None if timeout_seconds is None else loop.call_later(timeout_seconds, _settle, waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        for waiter in self._waiters:
            _settle(waiter)
        self._waiters.clear()
        if self.on_change is not None:
            self.on_change()


def _settle(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class EventReader:
    """One reader's place in a log."""

    def __init__(self, log: EventLog, after_id: int) -> None:
        self._log = log
        self._claimed = after_id or log.id_before_first
        # An id that was never given out comes from another log: of this one nothing is known to be read.
        # Where it comes from that of an heir, nothing of this one is to be read any more.
        is_heirs = self._claimed > log.id_before_first + IDS_PER_ATTEMPT
        self._position = self._claimed if is_heirs or self._claimed <= log.last_id else 0

    async def next(self, timeout_seconds: float | None = None) -> list[RunEvent] | None:
        """The next events, at most 64, with a gap marker before them where some were missed.

        Empty where none came in time; None after the last one.
        """
        batch = self.available()
        if not batch and not self._log.closed:
            await self._log.wait(timeout_seconds)
            batch = self.available()
        return None if not batch and self._log.closed else batch

    def available(self) -> list[RunEvent]:
        """What `next` would give without waiting."""
        events = self._log.after(self._position)
        if not events:
            return []
        first = events[0].id or 0
        missed = first > self._claimed + 1 or self._claimed != self._position
        gap = [gap_marker(self._claimed, first)] if missed else []
        self._position = self._claimed = events[-1].id or 0
        return gap + events


async def _batches(reader: EventReader) -> AsyncGenerator[list[RunEvent]]:
    while (batch := await reader.next()) is not None:
        yield batch


def gap_marker(after_id: int, next_id: int | None) -> RunEvent:
    """What tells a reader that events after `after_id` are lost; it goes on with `next_id`."""
    return RunEvent(None, "gap", encode_json({"after": after_id, "next": next_id}))
