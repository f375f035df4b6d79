"""This host among those that share its database, and which runs are still its own."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from uuid import uuid4

from deerflow.runs.record import RunLostError
from deerflow.runs.stores import HostStore

logger = logging.getLogger(__name__)


class Presence:
    """One host on its database; belongs to the host's event loop.

    `host_id` is new with each start: a process that comes back does not pass for the one that died.
    """

    def __init__(self, hosts: HostStore | None, *, lease_seconds: float) -> None:
        self.host_id = str(uuid4())
        self.hosts = hosts
        self.lease_seconds = lease_seconds
        self._expires = hosts is not None and hosts.leases_expire
        self._certain_until = -math.inf if self._expires else math.inf
        self._owned: Mapping[str, str | None] = {}
        self._renewing = asyncio.Lock()

    async def beat(self) -> Mapping[str, str | None]:
        """Renew the lease; the active runs that this host has, with what asks each of them to stop."""
        assert self.hosts is not None, "without other hosts there is nobody to show it to"
        # The server counts from when it gets the lease, which is later: here it is never thought too long.
        began = time.monotonic()
        self._owned = await self.hosts.beat(self.host_id, self.lease_seconds)
        if self._expires:
            self._certain_until = began + self.lease_seconds
        return self._owned

    async def may_write(self, run_id: str | None) -> None:
        """Raise `RunLostError` where a run must not write because another host has it.

        A host that was paused for longer than its lease asks the database before it goes on.
        """
        if time.monotonic() < self._certain_until:
            return
        async with self._renewing:
            if time.monotonic() >= self._certain_until:
                await self.beat()
        if run_id is not None and run_id not in self._owned:
            raise RunLostError(run_id)


@asynccontextmanager
async def open_presence(hosts: HostStore | None, *, lease_seconds: float) -> AsyncIterator[Presence]:
    """Count as alive to other hosts from now on, and no longer after the block."""
    presence = Presence(hosts, lease_seconds=lease_seconds)
    if hosts is None:
        yield presence
        return
    await hosts.enter(presence.host_id, lease_seconds)
    try:
        yield presence
    finally:
        try:
            await hosts.leave(presence.host_id)
        except Exception:
            # The lease runs out by itself, or the lock is given back with the process.
            logger.exception("host %s could not take its leave", presence.host_id)
