"""Runs that ended a moment ago: what a client that lost its connection near the end comes back for."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from deerflow.runs.ending import Ending
from deerflow.runs.events.log import EventLog
from deerflow.runs.record import utc_now

KEPT_RUNS: Final = 256
KEPT_BYTES: Final = 64 * 1024 * 1024
KEPT_SECONDS: Final = 300.0


@dataclass(frozen=True, eq=False)
class EndedRun:
    """A run that has ended, with the events that it left.

    `values` is its last state where no thread keeps it.
    """

    run_id: str
    thread_id: str
    user_id: str | None
    log: EventLog
    ending: Ending
    values: Mapping[str, Any] | None = None
    ended_at_seconds: float = field(default_factory=time.monotonic)
    created_at: datetime = field(default_factory=utc_now)


class RecentRuns:
    """The newest ended runs, bounded by number, by the bytes of their events, and by age."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, EndedRun] = OrderedDict()
        self._bytes = 0

    def keep(self, run: EndedRun) -> None:
        """Remember a run, forgetting the oldest where there is no room."""
        self._runs[run.run_id] = run
        self._bytes += run.log.size_bytes
        while self._runs and (len(self._runs) > KEPT_RUNS or self._bytes > KEPT_BYTES or self._is_old()):
            _, oldest = self._runs.popitem(last=False)
            self._bytes -= oldest.log.size_bytes

    def find(self, run_id: str) -> EndedRun | None:
        """The run, where it is still remembered."""
        return self._runs.get(run_id)

    def on_thread(self, thread_id: str) -> list[EndedRun]:
        """The remembered runs of a thread, in the order of their ends."""
        return [run for run in self._runs.values() if run.thread_id == thread_id]

    def forget(self, run_id: str) -> None:
        """Remember a run no longer, because it was deleted."""
        run = self._runs.pop(run_id, None)
        if run is not None:
            self._bytes -= run.log.size_bytes

    def forget_thread(self, thread_id: str) -> None:
        """Remember no run of a deleted thread."""
        for run_id in [run.run_id for run in self._runs.values() if run.thread_id == thread_id]:
            self.forget(run_id)

    def _is_old(self) -> bool:
        oldest = next(iter(self._runs.values()))
        return time.monotonic() - oldest.ended_at_seconds > KEPT_SECONDS
