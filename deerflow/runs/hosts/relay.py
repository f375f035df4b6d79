"""Where hosts read the events of each other's runs, as the run path sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from deerflow.errors import UnavailableError
from deerflow.runs.events.log import EventLog, RunEvent


class RelayError(UnavailableError):
    """The events of other hosts cannot be read now; the text says why, without secrets."""


class EventRelay(Protocol):
    """The events of runs, kept under their ids where every host can read them.

    A run never waits for it, and never fails with it. Belongs to the host's event loop.
    """

    @property
    def answers(self) -> bool:
        """Whether it did what it was asked for last."""

    def carry(self, run_id: str, log: EventLog, left: Callable[[], bytes | None]) -> None:
        """Pass on what is published in `log`, from its beginning to its end. Where that is interrupted for
        long, readers find a gap between ids. `left` is asked at the end what to keep beside it."""

    async def read(self, run_id: str, after_id: int, *, wait_seconds: float = 0.0) -> list[RunEvent]:
        """The oldest events after `after_id`, not many at once. Empty where there is none within
        `wait_seconds`. Raises `RelayError`."""

    async def newest(self, run_id: str) -> RunEvent | None:
        """The newest event of a run; `None` where none is kept. Raises `RelayError`."""

    async def left(self, run_id: str) -> bytes | None:
        """What was kept beside the end of a run. Raises `RelayError`."""
