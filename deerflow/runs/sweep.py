"""Sweep threads away that have lasted as long as they were to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from time import monotonic
from typing import Final

from deerflow.cancellation import stop_task, uninterrupted
from deerflow.errors import ConflictError, UnavailableError
from deerflow.runs.parts import RunParts
from deerflow.runs.record import utc_now
from deerflow.runs.removal import remove_leftovers
from deerflow.runs.service import RunService
from deerflow.runs.thread_ttl import SWEEP_PAUSE
from deerflow.runs.ticking import ticking

logger = logging.getLogger(__name__)

SWEEP_SECONDS: Final = 60.0
MAX_SWEPT: Final = 200
"""How many threads one sweep looks at; the others wait for the next one."""

STOP_GRACE_SECONDS: Final = 5.0

Prune = Callable[[str], Awaitable[None]]


@asynccontextmanager
async def sweeping(sweep: ThreadSweep) -> AsyncIterator[None]:
    """Sweep at once, and again and again during the block, on nobody's time."""
    async with ticking(SWEEP_SECONDS, name="sweep of threads") as tick:
        sweeper = asyncio.create_task(sweep.run(tick), name="sweep of threads")
        try:
            yield
        finally:
            await stop_task(sweeper, grace_seconds=STOP_GRACE_SECONDS)


class ThreadSweep:
    """The sweep of one host; several on one database get in nobody's way. `prune` keeps of a thread's states
    the newest alone."""

    def __init__(self, runs: RunService, parts: RunParts, prune: Prune) -> None:
        self._runs = runs
        self._parts = parts
        self._ttls = parts.stores.ttls
        self._prune = prune

    async def run(self, tick: asyncio.Event) -> None:
        """Sweep now and at each tick."""
        while True:
            await self.sweep(utc_now())
            await tick.wait()
            tick.clear()

    async def sweep(self, now: datetime) -> None:
        """Do with threads that have expired by `now` what is to be done with them; what fails is one line of
        the log, and is tried again."""
        swept, failures = 0, list[str]()
        try:
            swept = await self._sweep_due(now, failures)
        except Exception as error:  # noqa: BLE001 - whatever it is, there is another sweep
            failures.append(str(error))
        if swept:
            logger.info("%d threads had expired, and were deleted or lost their older states", swept)
        if failures:
            logger.warning("expired threads could not be swept, which is tried again: %s", failures[0])

    async def _sweep_due(self, now: datetime, failures: list[str]) -> int:
        """For how many threads there was something to be done; failures of single ones are added to those."""
        swept, began_seconds = 0, monotonic()
        for thread_id in await self._ttls.due(now, MAX_SWEPT):
            if not self._runs.accepting:
                break
            # Those before it may have taken long: other hosts are to wait for this one from now on.
            moment = now + timedelta(seconds=monotonic() - began_seconds)
            try:
                work = self._sweep_thread(thread_id, moment)
                swept += await uninterrupted(work, name=f"expire thread {thread_id}")
            except UnavailableError:  # as it would be with all others
                raise
            except Exception as error:  # noqa: BLE001 - savers fail in their own ways, the sweep goes on
                failures.append(f"thread {thread_id}: {error}")
        return swept

    async def _sweep_thread(self, thread_id: str, now: datetime) -> bool:
        """Whether there was something to be done."""
        try:
            async with self._runs.exclusive(thread_id):
                return await self._sweep_quiet_thread(thread_id, now)
        except ConflictError:  # it has a run
            await self._ttls.postpone(thread_id, now + SWEEP_PAUSE)
            return False

    async def _sweep_quiet_thread(self, thread_id: str, now: datetime) -> bool:
        strategy = await self._ttls.expire(thread_id, now)
        if strategy is None:
            return False
        if strategy == "delete":
            self._runs.forget(thread_id)
            await remove_leftovers(thread_id, self._parts)
        else:
            await self._prune(thread_id)
        await self._ttls.settle(thread_id, strategy, now)
        return True
