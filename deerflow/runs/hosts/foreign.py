"""Follow a run that another host has: through the relay where there is one, and by its record."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from deerflow.runs.events.log import (
    IDS_PER_ATTEMPT,
    MAX_EVENTS,
    EventLog,
    EventReader,
    RunEvent,
    gap_marker,
)
from deerflow.runs.hosts.relay import RelayError
from deerflow.runs.parts import RunParts
from deerflow.runs.record import ACTIVE_STATUSES, RunRecord, RunStatus
from deerflow.runs.serialize import encode_json

PAUSE_SECONDS: Final = 1.0
"""How often is looked whether the run goes on here; without a relay that answers, also at its record."""

RECORD_SECONDS: Final = 5.0
"""How often the record is read while a relay is silent."""

FINISHING_SECONDS: Final = 30.0
"""How long, at most, a run whose end is recorded may take to tell it."""

LOOK_SECONDS: Final = 0.05
LEAVING_SECONDS: Final = 3.0
"""How long readers get to notice that their host closes: longer than they look away."""


class Followers:
    """Who waits for events of other hosts' runs here: they are to leave before their host closes."""

    def __init__(self) -> None:
        self._waiting = 0
        self._left_at_seconds = -math.inf
        self.closing = False

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count a reader that waits, as its client has not left."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            self._left_at_seconds = time.monotonic()

    async def finished(self, timeout_seconds: float) -> None:
        """Wait until nobody follows any more, or the time is over."""
        over_at_seconds = time.monotonic() + timeout_seconds
        while self._is_followed() and time.monotonic() < over_at_seconds:
            await asyncio.sleep(LOOK_SECONDS)

    def _is_followed(self) -> bool:
        """A moment counts in which a reader sends what it has got."""
        return self._waiting > 0 or time.monotonic() - self._left_at_seconds < 2 * LOOK_SECONDS

    async def let_go(self) -> None:
        """End every stream, without an `end` where that has not come: clients ask another host."""
        self.closing = True
        await self.finished(LEAVING_SECONDS)


class ForeignReader:
    """One reader's place in the events of a run that is not, or not yet, in this process.

    Ends like an `EventReader`. Where the events of the end are lost, the record tells the end.
    """

    def __init__(
        self,
        record: RunRecord,
        after_id: int | None,
        parts: RunParts,
        find: Callable[[str], EventLog | None],
        followers: Followers,
    ) -> None:
        self._record = record
        self._after_id = after_id
        self._runs = parts.stores.runs
        self._relay = parts.relay
        self._grace_seconds = min(FINISHING_SECONDS, parts.presence.lease_seconds)
        self._find = find
        self._here: EventReader | None = None
        self._position: int | None = None
        self._read_at_seconds = self._ended_at_seconds = time.monotonic()
        self._patience_seconds = PAUSE_SECONDS if self._is_active() else 0.0
        self._record_pause_seconds = PAUSE_SECONDS
        self._over = False
        self._followers = followers

    async def next(self, timeout_seconds: float | None = None) -> list[RunEvent] | None:
        """The next events, with a gap marker before them where some were missed.

        Empty where none came in time, which may be exceeded by a second; None after the last one.
        """
        if self._here is None:
            with self._followers.waiting():
                batch = await self._from_elsewhere(timeout_seconds)
        return batch if self._here is None else await self._here.next(timeout_seconds)

    async def _from_elsewhere(self, timeout_seconds: float | None) -> list[RunEvent] | None:
        """The next events, unless the run is found here meanwhile."""
        began = time.monotonic()
        while not self._over and not self._followers.closing:
            self._here = self._found_here()
            if self._here is not None:
                return []
            if batch := await self._from_relay() or await self._from_record():
                return batch
            if timeout_seconds is not None and time.monotonic() - began >= timeout_seconds:
                return []
        return None

    def _found_here(self) -> EventReader | None:
        """The run's own log, once this host has taken it up: whatever is in it came after the client did."""
        log = self._find(self._record.run_id)
        if log is None:
            return None
        seen = self._after_id if self._position is None else self._position
        return log.reader(seen or 0)

    async def _from_relay(self) -> list[RunEvent]:
        if self._relay is None:
            await asyncio.sleep(self._patience_seconds)
            return []
        run_id = self._record.run_id
        try:
            if self._position is None:
                self._position = self._begin_after(await self._relay.newest(run_id))
            events = await self._relay.read(run_id, self._position, wait_seconds=self._patience_seconds)
        except RelayError:
            self._record_pause_seconds = PAUSE_SECONDS
            await asyncio.sleep(self._patience_seconds)
            return []
        self._record_pause_seconds = RECORD_SECONDS
        return self._seen(events)

    def _begin_after(self, newest: RunEvent | None) -> int:
        """The id after which to read. The relay may lag behind what the run's own host has sent."""
        newest_id = 0 if newest is None else newest.id or 0
        if self._after_id is None:
            return newest_id - 1 if newest is not None and newest.name == "end" else newest_id
        was_given_out = self._after_id <= newest_id + MAX_EVENTS
        return self._after_id if was_given_out or _attempt(self._after_id) > _attempt(newest_id) else 0

    def _seen(self, events: list[RunEvent]) -> list[RunEvent]:
        # Differs from the position where the client came with an id that was never given out.
        claimed = self._position or self._after_id
        told: list[RunEvent] = []
        for event in events:
            if claimed is not None and event.id != claimed + 1:
                told.append(gap_marker(claimed, event.id))
            told.append(event)
            self._position = claimed = event.id
            self._over = event.name == "end"
        return told

    async def _from_record(self) -> list[RunEvent]:
        """The end, where the record has it and the relay does not bring it in time."""
        if not await self._has_ended() or self._find(self._record.run_id) is not None:
            return []
        newest = await self._newest()
        if newest is not None and newest.name == "end" and (self._position or 0) >= (newest.id or 0):
            self._over = True  # the client had everything before it came
            return []
        if newest is not None and time.monotonic() - self._ended_at_seconds < self._grace_seconds:
            self._patience_seconds = PAUSE_SECONDS  # the end is there by now, or may still come
            return []
        self._over = True
        seen = self._position or self._after_id
        gap = [] if seen is None else [gap_marker(seen, None)]
        return [*gap, RunEvent(None, "end", encode_json(_end_of(self._record)))]

    async def _has_ended(self) -> bool:
        now = time.monotonic()
        if self._is_active() and now - self._read_at_seconds >= self._record_pause_seconds:
            self._read_at_seconds = now
            record = await self._runs.get(self._record.run_id, thread_id=self._record.thread_id)
            # What was deleted meanwhile had been stopped before.
            self._record = record or replace(self._record, status=RunStatus.INTERRUPTED)
            self._ended_at_seconds = now
        return not self._is_active()

    def _is_active(self) -> bool:
        return self._record.status in ACTIVE_STATUSES

    async def _newest(self) -> RunEvent | None:
        try:
            return None if self._relay is None else await self._relay.newest(self._record.run_id)
        except RelayError:
            return None


def _attempt(event_id: int) -> int:
    return max(0, event_id - 1) // IDS_PER_ATTEMPT


def _end_of(run: RunRecord) -> Mapping[str, Any]:
    end = {"run_id": run.run_id, "thread_id": run.thread_id, "status": run.status, "usage": {}}
    return end if run.error is None else {**end, "error": run.error}
