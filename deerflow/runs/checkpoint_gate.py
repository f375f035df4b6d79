"""Which runs may write checkpoints on this host, and which are writing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from deerflow.runs.hosts.presence import Presence
from deerflow.runs.record import RunClosedError

MAX_CLOSED: Final = 10_000


class CheckpointGate:
    """Lets runs write as long as this host has them, and until they are stopped."""

    def __init__(self, presence: Presence) -> None:
        self._presence = presence
        self._writing: Counter[str] = Counter()
        self._closed: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def writing(self, run_id: str | None) -> AsyncIterator[None]:
        """Around each write of a run (`None`: of nobody's). Raises where the run must not write any more."""
        await self._presence.may_write(run_id)
        if run_id is None:
            yield
            return
        if run_id in self._closed:
            raise RunClosedError(run_id)
        self._writing[run_id] += 1
        try:
            yield
        finally:
            self._leave(run_id)

    async def close(self, run_id: str) -> None:
        """Let a run begin no further write, and wait for those that it has begun.

        A graph that is cancelled while it waits for its last writes leaves them to themselves.
        """
        quiet = self._closed.setdefault(run_id, asyncio.Event())
        while len(self._closed) > MAX_CLOSED:
            del self._closed[next(iter(self._closed))]
        if run_id not in self._writing:
            quiet.set()
        await quiet.wait()

    def open(self, run_id: str) -> None:
        """Let a run write that this host has had before, and has again."""
        self._closed.pop(run_id, None)

    def _leave(self, run_id: str) -> None:
        self._writing[run_id] -= 1
        if not self._writing[run_id]:
            del self._writing[run_id]
            if run_id in self._closed:
                self._closed[run_id].set()
