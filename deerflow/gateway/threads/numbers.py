"""One numbering for the events of all runs of a thread: it rises, and follows from what a run is known by.

Whoever comes back, to this process or another one, is told the same numbers.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from deerflow.runs.events.log import IDS_PER_ATTEMPT

# A run's numbers begin at its moment, 2**13 for each millisecond: 34 years fit into a JavaScript number.
_FIRST_MOMENT: Final = datetime(2025, 1, 1, tzinfo=UTC)
_NUMBERS_PER_MS: Final = 2**13
# How many events of a protocol one event of a run may become without moving the next.
_NUMBERS_PER_EVENT: Final = 2**4
_NUMBERS_PER_ATTEMPT: Final = 2**24


class ThreadNumbers:
    """The numbers that one reader of a thread is told."""

    def __init__(self) -> None:
        self._last = 0

    def next(self, created_at: datetime, event_id: int, index: int = 0) -> int:
        """The number of an event, or part of an event, of the run that was made at that moment."""
        # Of two runs that were made in one moment the first may need the numbers of the second.
        self._last = max(self._last + 1, _number_of(created_at, event_id) + index)
        return self._last


def _number_of(created_at: datetime, event_id: int) -> int:
    milliseconds = int((created_at - _FIRST_MOMENT).total_seconds() * 1000)
    attempt, count = divmod(event_id, IDS_PER_ATTEMPT)
    return milliseconds * _NUMBERS_PER_MS + attempt * _NUMBERS_PER_ATTEMPT + count * _NUMBERS_PER_EVENT
