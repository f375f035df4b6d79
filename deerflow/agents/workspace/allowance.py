"""How long a file operation may take, and whether anyone still waits for it."""

from __future__ import annotations

import threading
import time


class AbandonedError(Exception):
    """Nobody waits for the operation any more: it ends here, leaving nothing half done."""


ALLOWED_SECONDS = 15.0


class Allowance:
    """Passed into work on a worker thread; both sides may read it at any time."""

    def __init__(self, seconds: float = ALLOWED_SECONDS) -> None:
        self.seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._abandoned = threading.Event()

    def begin(self) -> None:
        """Count the time from now on: waiting for a worker is not the work's fault."""
        self._deadline = time.monotonic() + self.seconds

    @property
    def is_spent(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self._deadline

    def abandon(self) -> None:
        """Tell the worker that its result is not wanted."""
        self._abandoned.set()

    def check(self) -> None:
        """Raise `AbandonedError` once nobody waits; call it between steps, and before lasting effects."""
        if self._abandoned.is_set():
            raise AbandonedError
