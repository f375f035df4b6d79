"""Runs that are just being admitted: their records may be there already, and nobody carries them yet."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Arrivals:
    """The runs that arrive at one host. Belongs to its event loop."""

    def __init__(self) -> None:
        # One id may be asked for twice at once: it arrives until both have been answered.
        self._run_ids: Counter[str] = Counter()
        self._over = asyncio.Event()

    def __iter__(self) -> Iterator[str]:
        return iter(self._run_ids)

    @contextmanager
    def arriving(self, run_id: str) -> Iterator[None]:
        """Count the run during the block."""
        self._run_ids[run_id] += 1
        self._over.clear()
        try:
            yield
        finally:
            self._run_ids[run_id] -= 1
            if not self._run_ids[run_id]:
                del self._run_ids[run_id]
            if not self._run_ids:
                self._over.set()

    async def over(self, timeout_seconds: float) -> None:
        """Return when none arrives, or the time is over."""
        if self._run_ids:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_seconds):
                    await self._over.wait()
