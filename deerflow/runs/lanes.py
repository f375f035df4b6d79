"""One run of a thread at a time, in the order of their admission."""

from __future__ import annotations

import asyncio
from collections import deque


class ThreadLanes:
    """A queue of turns per thread; a turn is an event that is set when its run may go."""

    def __init__(self) -> None:
        self._lanes: dict[str, deque[asyncio.Event]] = {}

    def is_busy(self, thread_id: str) -> bool:
        """Whether anyone has or waits for a turn on the thread."""
        return thread_id in self._lanes

    def join(self, thread_id: str, *, is_under_way: bool = False) -> asyncio.Event:
        """Queue up; the first in a lane may go at once, and so may a run that is under way already."""
        lane = self._lanes.setdefault(thread_id, deque())
        turn = asyncio.Event()
        if is_under_way:
            lane.appendleft(turn)
        else:
            lane.append(turn)
        lane[0].set()
        return turn

    def leave(self, thread_id: str, turn: asyncio.Event) -> None:
        """Give the turn back, whether it was used or not."""
        lane = self._lanes[thread_id]
        lane.remove(turn)
        if lane:
            lane[0].set()
        else:
            del self._lanes[thread_id]
