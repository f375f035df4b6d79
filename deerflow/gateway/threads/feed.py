"""The events of a thread: those of its runs, one run after the other, and what is told beside them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, Protocol

from starlette.requests import Request

from deerflow.errors import NotFoundError
from deerflow.gateway.current import host_of, visible_to
from deerflow.runs.events.log import RunEvent
from deerflow.runs.notices import Mailbox
from deerflow.runs.recent import KEPT_SECONDS
from deerflow.runs.record import ACTIVE_STATUSES, RunRecord, utc_now
from deerflow.runs.request import checked_id

# How often is looked whether the server ends.
LOOK_SECONDS: Final = 1.0
# How often is looked for runs that other hosts have.
LOOK_ELSEWHERE_SECONDS: Final = 2.0
# How many of the thread's newest runs are looked at.
MOST_REMEMBERED: Final = 20
# How often is looked whether the thread is still there, and this caller's.
CHECK_SECONDS: Final = 15.0


class Reader(Protocol):
    """A place in the events of one run, here or on another host."""

    async def next(self, timeout_seconds: float | None = None) -> list[RunEvent] | None:
        """The next events; empty where none came in time, None after the last one."""


@dataclass(frozen=True)
class FollowedRun:
    """A run of the thread. Those created later come later."""

    run_id: str
    created_at: datetime


@dataclass(frozen=True)
class Part:
    """What came: events of `run`, or without one a notice. Neither: a while has passed."""

    run: FollowedRun | None = None
    events: tuple[RunEvent, ...] = ()
    notice: Any = None


@dataclass(frozen=True)
class _Found:
    """A run that has begun; `read` gives a reader of what comes after an event."""

    run: FollowedRun
    user_id: str | None
    read: Callable[[int | None], Reader]
    is_over: bool = False


class ThreadFeed:
    """One reader's place in the events of a thread, which may be made later.

    Begins with the runs that this process remembers, or with `is_live` at what comes from now on. Ends
    with the server, or with the thread.
    """

    def __init__(self, request: Request, thread_id: str, *, is_live: bool = False) -> None:
        self._request = request
        self._thread_id = thread_id
        self._runs = host_of(request).runs
        self._stores = host_of(request).database.stores
        self._owner = visible_to(request)
        self._is_known = False
        self._looked_at_seconds = -math.inf
        self._records: list[RunRecord] = []
        self._told: set[str] = set()
        self._begun_after: dict[str, int] = {}
        self._is_live = is_live
        self._checked_at_seconds = time.monotonic()

    async def parts(self, pause_seconds: float) -> AsyncGenerator[Part]:
        """What happens, as it comes; an empty part wherever nothing did for `pause_seconds`."""
        with self._runs.notices.following(self._thread_id) as mailbox:
            while True:
                found = await self._next_run()
                if found is not None:
                    async for part in self._run_parts(*found, mailbox, pause_seconds):
                        yield part
                    continue
                if self._is_over() or await self._is_gone():
                    return
                await self._wait(mailbox, min(pause_seconds, LOOK_SECONDS))
                for part in _notices(mailbox) or [Part()]:
                    yield part

    async def _run_parts(
        self, run: FollowedRun, reader: Reader, mailbox: Mailbox, pause_seconds: float
    ) -> AsyncGenerator[Part]:
        self._told.add(run.run_id)
        newest: RunEvent | None = None
        while (events := await reader.next(min(pause_seconds, LOOK_SECONDS))) is not None:
            newest = events[-1] if events else newest
            yield Part(run, tuple(events))
            for part in _notices(mailbox):
                yield part
        if newest is not None and newest.name != "end":
            # Another host has taken it up, and tells how it goes on.
            self._told.discard(run.run_id)
            self._begun_after[run.run_id] = newest.id or 0

    async def _next_run(self) -> tuple[FollowedRun, Reader] | None:
        """The run to tell next: the oldest that has begun, and was not told yet."""
        here = list(self._begun_here())
        # Before one of this host's is told, those that others had before have to be.
        is_due = any(item.run.run_id not in self._told for item in here)
        found = [*here, *await self._begun_elsewhere(is_due=is_due)]
        is_live, self._is_live = self._is_live, False
        if is_live:
            self._told.update(item.run.run_id for item in found if item.is_over)
        new = [item for item in found if item.run.run_id not in self._told]
        visible = [item for item in new if self._owner in (None, item.user_id)]
        if not visible:
            return None
        oldest = min(visible, key=lambda item: item.run.created_at)
        return oldest.run, oldest.read(None if is_live else self._begun_after.get(oldest.run.run_id, 0))

    def _begun_here(self) -> Iterator[_Found]:
        for ended in self._runs.ended_on(self._thread_id):
            run = FollowedRun(ended.run_id, ended.created_at)
            yield _Found(run, ended.user_id, ended.log.reader, is_over=True)
        for active in self._runs.active_on(self._thread_id):
            if active.log.first_moments:
                run = FollowedRun(active.run_id, active.record.created_at)
                yield _Found(run, active.user_id, active.log.reader)

    async def _begun_elsewhere(self, *, is_due: bool) -> list[_Found]:
        now = time.monotonic()
        is_due = is_due or now - self._looked_at_seconds >= LOOK_ELSEWHERE_SECONDS
        if self._stores.hosts is not None and is_due:
            self._looked_at_seconds = now
            self._records = await self._stores.runs.list_by_thread(self._thread_id, limit=MOST_REMEMBERED)
        return [
            _Found(
                FollowedRun(record.run_id, record.created_at),
                record.user_id,
                partial(self._runs.follow, record),
                is_over=record.status not in ACTIVE_STATUSES,
            )
            for record in self._records
            if self._is_elsewhere(record)
        ]

    def _is_elsewhere(self, record: RunRecord) -> bool:
        is_here = self._runs.find(record.run_id) or self._runs.find_ended(record.run_id)
        is_old = (utc_now() - record.updated_at).total_seconds() > KEPT_SECONDS
        has_begun = record.attempt > 0 or record.status not in ACTIVE_STATUSES
        return is_here is None and has_begun and not (is_old and record.status not in ACTIVE_STATUSES)

    async def _wait(self, mailbox: Mailbox, timeout_seconds: float) -> None:
        """Until there is a notice, or a run that waits begins."""
        waiting = [asyncio.ensure_future(mailbox.wait(timeout_seconds))]
        for run in self._runs.active_on(self._thread_id):
            if run.run_id not in self._told:
                waiting.append(asyncio.ensure_future(run.log.wait(timeout_seconds)))
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waiting:
                waiter.cancel()
            await asyncio.wait(waiting)

    def _is_over(self) -> bool:
        return not self._runs.accepting and not self._runs.active_on(self._thread_id)

    async def check(self) -> bool:
        """Whether the thread may be followed: it is the caller's, or nobody's yet."""
        thread = await self._stores.threads.get(self._thread_id)
        if thread is None:
            return not self._is_known
        self._is_known = True
        return self._owner in (None, thread.user_id)

    async def _is_gone(self) -> bool:
        if time.monotonic() - self._checked_at_seconds < CHECK_SECONDS:
            return False
        self._checked_at_seconds = time.monotonic()
        return not await self.check()


async def thread_feed(request: Request, thread_id: str, *, is_live: bool = False) -> ThreadFeed:
    """The feed of a thread that is the caller's, or is not there yet; else `NotFoundError`."""
    feed = ThreadFeed(request, checked_id(thread_id, "thread_id"), is_live=is_live)
    if not await feed.check():
        raise NotFoundError(f"there is no thread {thread_id}")
    return feed


def _notices(mailbox: Mailbox) -> list[Part]:
    return [Part(notice=notice) for notice in mailbox.take()]
