"""The events of a thread: those of its runs, one run after the other, and what is told beside them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from starlette.requests import Request

from deerflow.errors import NotFoundError
from deerflow.gateway.current import host_of, visible_to
from deerflow.runs.active import ActiveRun
from deerflow.runs.event_log import RunEvent
from deerflow.runs.notices import Mailbox
from deerflow.runs.recent import EndedRun
from deerflow.runs.record import RunRecord
from deerflow.runs.request import checked_id

# How often is looked whether the server ends, and for runs that other hosts have.
LOOK_SECONDS: Final = 1.0
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
        self._has_others = getattr(self._stores.hosts, "leases_expire", False)
        self._is_known = False
        self._told: set[str] = set()
        self._is_live = is_live
        self._checked_at_seconds = time.monotonic()

    async def parts(self, pause_seconds: float) -> AsyncGenerator[Part]:
        """What happens, as it comes; an empty part wherever nothing did for `pause_seconds`."""
        with self._runs.notices.following(self._thread_id) as mailbox:
            if self._is_live:
                self._told.update(run.run_id for run in self._runs.ended_on(self._thread_id))
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
        while (events := await reader.next(min(pause_seconds, LOOK_SECONDS))) is not None:
            yield Part(run, tuple(events))
            for part in _notices(mailbox):
                yield part

    async def _next_run(self) -> tuple[FollowedRun, Reader] | None:
        """The run to tell next: one that has begun, and was not told yet."""
        begun: list[ActiveRun | EndedRun] = [*self._runs.ended_on(self._thread_id)]
        begun += [run for run in self._runs.active_on(self._thread_id) if _has_begun(run)]
        for run in begun:
            if run.run_id not in self._told and self._owner in (None, run.user_id):
                after_id = None if self._is_live and isinstance(run, ActiveRun) else 0
                self._is_live = False
                created_at = run.record.created_at if isinstance(run, ActiveRun) else run.created_at
                return FollowedRun(run.run_id, created_at), run.log.reader(after_id)
        self._is_live = False
        return await self._next_run_elsewhere()

    async def _next_run_elsewhere(self) -> tuple[FollowedRun, Reader] | None:
        if not self._has_others:
            return None
        for record in await self._stores.runs.list_active(thread_id=self._thread_id):
            if record.run_id not in self._told and self._is_elsewhere(record):
                return FollowedRun(record.run_id, record.created_at), self._runs.follow(record, 0)
        return None

    def _is_elsewhere(self, record: RunRecord) -> bool:
        is_here = self._runs.find(record.run_id) is not None
        return record.attempt > 0 and not is_here and self._owner in (None, record.user_id)

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


def _has_begun(run: ActiveRun) -> bool:
    return bool(run.log.first_moments)


def _notices(mailbox: Mailbox) -> list[Part]:
    return [Part(notice=notice) for notice in mailbox.take()]
