"""Watch over a host's runs: renew its lease, hear who is to stop, and take up the runs of dead hosts."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from deerflow.cancellation import stop_task
from deerflow.runs.hosts.presence import Presence
from deerflow.runs.service import RunService
from deerflow.runs.stores import HostStore
from deerflow.runs.ticking import ticking

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""How soon a host hears that one of its runs is to stop."""

BEATS_PER_LEASE = 3
STOP_GRACE_SECONDS = 5.0


@asynccontextmanager
async def watching(runs: RunService, presence: Presence) -> AsyncIterator[None]:
    """Take up what dead hosts left, and go on watching during the block.

    Runs that were waiting for their turn when their host died come before those that are asked for now.
    """
    if presence.hosts is None:
        yield
        return
    watch = Watch(runs, presence, presence.hosts)
    await watch.beat()
    async with ticking(watch.pause_seconds, name="watch of runs") as tick:
        watcher = asyncio.create_task(watch.run(tick), name=f"watch of host {presence.host_id}")
        try:
            yield
        finally:
            await stop_task(watcher, grace_seconds=STOP_GRACE_SECONDS)


class Watch:
    """The watch of one host, which looks around every `pause_seconds`."""

    def __init__(self, runs: RunService, presence: Presence, hosts: HostStore) -> None:
        self._runs = runs
        self._presence = presence
        self._hosts = hosts
        self._beat_seconds = presence.lease_seconds / BEATS_PER_LEASE
        self.pause_seconds = min(LOOK_SECONDS, self._beat_seconds)
        self._last_beat = -math.inf
        self._judges_from = -math.inf

    async def run(self, tick: asyncio.Event) -> None:
        """Look after everything at each tick; a database that is away is asked again."""
        while True:
            await tick.wait()
            tick.clear()
            try:
                await self._look()
            except Exception as error:  # noqa: BLE001 - whatever it is, the watch goes on
                logger.warning("host %s could not look after its runs: %s", self._presence.host_id, error)

    async def _look(self) -> None:
        if time.monotonic() - self._last_beat >= self._beat_seconds:
            await self.beat()
        elif active := self._runs.active_ids():
            await self._runs.heed(await self._hosts.owned(self._presence.host_id), active)

    async def beat(self) -> None:
        """Show that this host lives, hear about its runs, and take up those of hosts that do not."""
        now = time.monotonic()
        late = now - self._last_beat > self._presence.lease_seconds
        if self._hosts.leases_expire and late and self._last_beat > 0:
            # It may be the database that was away. Others, late as well, get the time to show themselves.
            self._judges_from = now + self._presence.lease_seconds
        active = self._runs.active_ids()
        owned = await self._presence.beat()
        self._last_beat = now
        await self._runs.heed(owned, active)
        await self._runs.save_late_endings()
        if self._runs.accepting and now >= self._judges_from:
            self._runs.take_up(await self._hosts.inherit(self._presence.host_id))
