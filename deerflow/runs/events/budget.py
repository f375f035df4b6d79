"""A bound over the events that all runs under way keep together."""

from __future__ import annotations

import heapq
import logging
from typing import Protocol
from weakref import WeakSet

logger = logging.getLogger(__name__)

_STEPS = 16
"""What is dropped at once is one of so many parts of the bound: looking for large logs stays rare."""


class Shedding(Protocol):
    """A log that can drop its oldest events."""

    @property
    def size_bytes(self) -> int: ...

    def shed(self, most_bytes: int) -> int:
        """Drop the oldest events until `most_bytes` are left, or one event. Returns the bytes freed."""
        ...


class EventBudget:
    """Makes the largest logs drop their oldest events where all of them pass `max_bytes`. Of one event loop.

    Between two of those moments an event costs an addition. Logs that consist of one event pass the bound.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._step_bytes = max(1, max_bytes // _STEPS)
        self._shed_beyond = max_bytes
        self._bytes = 0
        # A log that nobody closed goes with its run.
        self._logs: WeakSet[Shedding] = WeakSet()

    @property
    def used_bytes(self) -> int:
        """How much the logs weigh together."""
        return self._bytes

    def join(self, log: Shedding) -> None:
        """Count what `log` is going to keep."""
        self._logs.add(log)

    def leave(self, log: Shedding) -> None:
        """Count `log` no longer."""
        self._logs.discard(log)
        self._bytes -= log.size_bytes
        self._shed_beyond = self._max_bytes

    def note(self, grown_bytes: int) -> None:
        """Say by how much a log has grown, or with a negative number shrunk."""
        self._bytes += grown_bytes
        if self._bytes > self._shed_beyond:
            self._shed()

    def _shed(self) -> None:
        largest_first = [(-log.size_bytes, number, log) for number, log in enumerate(self._logs)]
        heapq.heapify(largest_first)
        before = self._bytes = -sum(size for size, _, _ in largest_first)
        while largest_first and self._bytes > self._max_bytes - self._step_bytes:
            _, number, log = heapq.heappop(largest_first)
            freed = log.shed(log.size_bytes // 2)
            self._bytes -= freed
            if freed:
                heapq.heappush(largest_first, (-log.size_bytes, number, log))
        # What could not be dropped is not tried again with the next event.
        self._shed_beyond = max(self._max_bytes, self._bytes + self._step_bytes)
        logger.warning(
            "events of runs under way take %d bytes: the largest logs dropped the oldest %d",
            before,
            before - self._bytes,
        )
