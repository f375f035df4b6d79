"""What became of a schedule's triggers: one JSON file for each schedule."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from filelock import FileLock
from pydantic import AwareDatetime, BaseModel, Field, ValidationError

from axonx.scheduler.timetable import utc_now
from axonx.task.atomic import write_atomically

MOST_RUNS = 1000
_LONGEST_ERROR_CHARACTERS = 2000
_LOCK_SECONDS = 10.0

RunState = Literal["succeeded", "failed", "cancelled", "skipped", "missed"]


class ScheduleRun(BaseModel):
    """One trigger. `skipped`: the Job was still running; `missed`: noticed too late, as after a suspend."""

    scheduled_at: AwareDatetime
    started_at: AwareDatetime | None = None
    finished_at: AwareDatetime = Field(default_factory=utc_now)
    state: RunState
    error: str = ""


class ScheduleHistory(BaseModel):
    """The document of one schedule, oldest run first."""

    version: Literal[1] = 1
    schedule: str
    runs: list[ScheduleRun] = Field(default_factory=list)


class HistoryFile:
    """`<workspace>/schedules/<sha256 of the name>.json`; synchronous, safe among processes.

    Keeps what is younger than `retention`, and no more than `MOST_RUNS`.
    """

    def __init__(self, workspace: Path, schedule: str, retention: timedelta) -> None:
        name = hashlib.sha256(schedule.encode()).hexdigest()
        self.path = workspace / "schedules" / f"{name}.json"
        self._schedule = schedule
        self._retention = retention

    def read(self) -> list[ScheduleRun]:
        """The runs that are kept; a file that cannot be read counts as empty."""
        try:
            history = ScheduleHistory.model_validate_json(self.path.read_bytes())
        except (OSError, ValidationError):
            return []
        return self._kept(history.runs, utc_now())

    def append(self, run: ScheduleRun) -> None:
        """Add a run and drop the old ones. Raises `OSError`, `TimeoutError` for a lock that is held."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        error = run.error[:_LONGEST_ERROR_CHARACTERS].encode("utf-8", "replace").decode()
        short = run.model_copy(update={"error": error})
        with FileLock(self.path.with_suffix(".lock"), timeout=_LOCK_SECONDS):
            runs = self._kept([*self.read(), short], run.finished_at)
            history = ScheduleHistory(schedule=self._schedule, runs=runs)
            data = history.model_dump_json(indent=2).encode() + b"\n"
            write_atomically(self.path, self.path.with_suffix(".tmp"), data)

    def _kept(self, runs: list[ScheduleRun], now: datetime) -> list[ScheduleRun]:
        oldest = now - self._retention
        return [run for run in runs if run.finished_at >= oldest][-MOST_RUNS:]
