"""Runs that another host has: stopped through their records, and waited for."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from deerflow_extension_api import TaskOutcome

from deerflow.errors import ConflictError, NotFoundError, UnavailableError
from deerflow.runs.active import STOP_GRACE_SECONDS, ActiveRun
from deerflow.runs.parts import RunParts
from deerflow.runs.record import ACTIVE_STATUSES, HOST_LOST, NewRunEvent, RunStatus

logger = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 0.1
FINISHING_SECONDS: Final = 30.0


class Elsewhere:
    """The runs of other hosts on one database. `find` gives those that are here."""

    def __init__(self, parts: RunParts, find: Callable[[str], ActiveRun | None]) -> None:
        self._parts = parts
        self._find = find

    async def stop(self, run_id: str, reason: str, *, wait: bool) -> bool:
        """Ask a run's host to stop it; whether it was under way. With `wait` it has ended on return."""
        if not await self._parts.stores.runs.request_stop(run_id, reason):
            return False
        if wait:
            await self._wait(run_id)
        return True

    async def _wait(self, run_id: str) -> None:
        # Where its host is dead, a living one takes the run up when the lease is over, and ends it.
        limit_seconds = 2 * self._parts.presence.lease_seconds + STOP_GRACE_SECONDS + FINISHING_SECONDS
        began = time.monotonic()
        while time.monotonic() - began < limit_seconds:
            run = self._find(run_id)
            if run is not None:
                await run.ended.wait()
                return
            record = await self._parts.stores.runs.get(run_id)
            if record is None or record.status not in ACTIVE_STATUSES:
                return
            await asyncio.sleep(PAUSE_SECONDS)
        raise UnavailableError(f"run {run_id} is to stop, but no host has stopped it for {limit_seconds:g} s")


async def end_stray(run_id: str, parts: RunParts) -> None:
    """End a record of this host that nothing here belongs to: the answer to its admission was not heard."""
    details = {"status": RunStatus.ERROR, "outcome": TaskOutcome.FAILED, "stop_reason": HOST_LOST}
    with suppress(ConflictError, NotFoundError):  # it came and went while the database was asked
        await parts.stores.runs.move(
            run_id,
            RunStatus.ERROR,
            error="HostLostError: the run was recorded, but never begun",
            stop_reason=HOST_LOST,
            events=[NewRunEvent("run.ended", "lifecycle", details)],
            host_id=parts.host_id,
        )
        logger.warning("run %s was recorded, but never begun: the database's answer was lost", run_id)
