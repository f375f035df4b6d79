"""How many subagents run at once, and who is next.

One object serves a whole host. Slots go round robin over conversations, so that one run with many
delegations cannot starve the others. Waiting holds no thread; any event loop may wait.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from threading import Lock

from deerflow.cancellation import settled
from deerflow.config import SubagentsConfig
from deerflow.errors import UnavailableError


class CapacityFullError(UnavailableError):
    """No subagent may start: every slot is taken, and so is the queue (or there is none)."""


class QueueTimeoutError(UnavailableError):
    """A subagent waited for a slot for as long as it may."""


@dataclass(frozen=True, eq=False)
class _Waiter:
    loop: asyncio.AbstractEventLoop
    granted: asyncio.Future[None]


class SubagentCapacity:
    """Slots for running subagents, with a bounded queue."""

    def __init__(self, config: SubagentsConfig) -> None:
        self._config = config
        self._lock = Lock()
        self._running = 0
        self._queued = 0
        self._lanes: OrderedDict[str, deque[_Waiter]] = OrderedDict()

    @property
    def running(self) -> int:
        """How many slots are taken."""
        return self._running

    @property
    def queued(self) -> int:
        """How many wait for one."""
        return self._queued

    @asynccontextmanager
    async def slot(self, lane: str) -> AsyncIterator[None]:
        """Hold one slot; `lane` (the conversation) decides whose turn it is.

        Raises `CapacityFullError` at once, or `QueueTimeoutError` after the configured wait.
        """
        waiter = self._enter(lane)
        if waiter is not None:
            await self._wait(lane, waiter)
        try:
            yield
        finally:
            self._leave()

    def _enter(self, lane: str) -> _Waiter | None:
        """Take a free slot (None), or join the queue."""
        with self._lock:
            if self._running < self._config.max_running and not self._queued:
                self._running += 1
                return None
            if self._config.admission == "reject":
                raise CapacityFullError(
                    f"all {self._config.max_running} subagent slots are taken; "
                    "try again later or raise subagents.max_running"
                )
            if self._queued >= self._config.max_queued:
                raise CapacityFullError(
                    f"all {self._config.max_running} subagent slots are taken and {self._queued} "
                    "delegations wait already; try again later or raise subagents.max_queued"
                )
            loop = asyncio.get_running_loop()
            waiter = _Waiter(loop, loop.create_future())
            self._lanes.setdefault(lane, deque()).append(waiter)
            self._queued += 1
            return waiter

    async def _wait(self, lane: str, waiter: _Waiter) -> None:
        timeout_seconds = self._config.queue_timeout_seconds
        try:
            granted = await settled(waiter.granted, timeout_seconds=timeout_seconds)
        except BaseException:
            self._give_back(lane, waiter)
            raise
        if not granted:
            self._give_back(lane, waiter)
            raise QueueTimeoutError(
                f"no subagent slot came free within {timeout_seconds:g} s; "
                "try again later or raise subagents.queue_timeout_seconds"
            )

    def _give_back(self, lane: str, waiter: _Waiter) -> None:
        # Between the grant and this moment the slot may already be ours: hand it on.
        if not self._withdraw(lane, waiter):
            self._leave()

    def _withdraw(self, lane: str, waiter: _Waiter) -> bool:
        with self._lock:
            waiters = self._lanes.get(lane)
            if waiters is None or waiter not in waiters:
                return False
            waiters.remove(waiter)
            self._queued -= 1
            if not waiters:
                del self._lanes[lane]
            return True

    def _leave(self) -> None:
        with self._lock:
            self._running -= 1
            while self._queued and self._running < self._config.max_running:
                waiter = self._next_in_turn()
                if self._grant(waiter):
                    self._running += 1

    def _next_in_turn(self) -> _Waiter:
        lane, waiters = next(iter(self._lanes.items()))
        waiter = waiters.popleft()
        self._queued -= 1
        if waiters:
            self._lanes.move_to_end(lane)
        else:
            del self._lanes[lane]
        return waiter

    @staticmethod
    def _grant(waiter: _Waiter) -> bool:
        try:
            waiter.loop.call_soon_threadsafe(_resolve, waiter.granted)
        except RuntimeError:  # its loop is closed: whoever waited there is gone
            return False
        return True


def _resolve(granted: asyncio.Future[None]) -> None:
    if not granted.done():
        granted.set_result(None)
