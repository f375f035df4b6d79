"""The progress of one run: a snapshot for each step and substep, told to a sink as it changes."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from axonx.components.job import ProgressEvent

_MOST_SUBSTEPS = 10_000
_FINISHED = frozenset({"done", "failed", "missed", "skipped"})
_WAITING = frozenset({"pending", "waiting"})


class EventAllowance:
    """Lets the first thousand changes through, then twenty a second: a tight loop must not fill the disk."""

    burst = 1000
    per_second = 20

    def __init__(self) -> None:
        self._left = float(self.burst)
        self._seen_at = time.monotonic()

    def take(self) -> bool:
        """Whether one more change may be written now."""
        now = time.monotonic()
        self._left = min(self.burst, self._left + (now - self._seen_at) * self.per_second)
        self._seen_at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class TaskProgress:
    """Keeps the snapshots of a run in the order in which they began.

    Safe to call from the threads of a Task. The sink gets every change of state, and as many
    changes of numbers as the allowance lets through.
    """

    def __init__(self, sink: Callable[[ProgressEvent], None], now: Callable[[], datetime]) -> None:
        self._sink = sink
        self._now = now
        self._snapshots: dict[tuple[str | None, str], ProgressEvent] = {}
        self._step: str | None = None
        self._allowance = EventAllowance()
        # Reentrant: a signal may interrupt the main thread at any point inside the lock.
        self._lock = threading.RLock()

    @property
    def snapshots(self) -> list[ProgressEvent]:
        with self._lock:
            return list(self._snapshots.values())

    def begin_step(self, name: str) -> None:
        """Start the step `name`; a name that was used before gets `-2`, `-3` and so on."""
        with self._lock:
            unique, count = name, 1
            while (None, unique) in self._snapshots:
                count += 1
                unique = f"{name}-{count}"
            self._step = unique
            now = self._now()
            self._put(
                ProgressEvent(name=unique, percentage=0, state="running", started_at=now, updated_at=now)
            )

    def end_step(self, error: str = "") -> None:
        """End the running step, and those of its substeps that are still open; `error` means it failed."""
        with self._lock:
            step, self._step = self._step, None
            if step is None:
                return
            for snapshot in self.snapshots:
                if snapshot.parent is not None and snapshot.state not in _FINISHED:
                    self._end(snapshot, "skipped" if snapshot.state in _WAITING else _end_state(error), "")
            self._end(self._snapshots[None, step], _end_state(error), error)

    def report(self, percentage: float | None, name: str | None, changes: dict[str, Any]) -> None:
        """Change the running step, or its substep `name`. Raises RuntimeError between steps, ValueError."""
        with self._lock:
            if self._step is None:
                raise RuntimeError("report_progress() works only while a step of the Task runs")
            current = self._snapshot_of(name, changes.pop("parent", None))
            checked_percentage(percentage, current.percentage)
            if percentage is not None:
                changes["percentage"] = percentage
            changes.setdefault("updated_at", self._now())
            if "metrics" in changes:
                changes["metrics"] = without_non_finite(changes["metrics"])
            snapshot = ProgressEvent.model_validate({**current.model_dump(), **changes})
            snapshot.model_dump_json()  # what cannot be written must fail here, in the Task's own step
            if snapshot.state in _FINISHED and snapshot.finished_at is None:
                snapshot = snapshot.model_copy(update={"finished_at": self._now()})
            self._put(snapshot)

    def repeat_all(self) -> None:
        """Tell the sink every snapshot once more, so that the end of the log holds the final state."""
        for snapshot in self.snapshots:
            self._sink(snapshot)

    def _snapshot_of(self, name: str | None, parent: str | None) -> ProgressEvent:
        if name is None or name == self._step:
            return self._snapshots[None, str(self._step)]
        parent = parent or self._step
        known = self._snapshots.get((parent, name))
        if known is not None:
            return known
        if len(self._snapshots) >= _MOST_SUBSTEPS:
            raise ValueError(
                f"A Task may report at most {_MOST_SUBSTEPS} steps and substeps; reuse their names"
            )
        return ProgressEvent(name=name, parent=parent, state="running", started_at=self._now())

    def _end(self, snapshot: ProgressEvent, state: str, error: str) -> None:
        now = self._now()
        changes: dict[str, Any] = {"state": state, "finished_at": now, "updated_at": now}
        if state == "done":
            changes["percentage"] = 100.0
        if error:
            changes["error"] = error
        self._put(snapshot.model_copy(update=changes))

    def _put(self, snapshot: ProgressEvent) -> None:
        key = (snapshot.parent, snapshot.name)
        before = self._snapshots.get(key)
        self._snapshots[key] = snapshot
        if before is None or before.state != snapshot.state or self._allowance.take():
            self._sink(snapshot)


def latest_steps(events: Iterable[ProgressEvent]) -> list[ProgressEvent]:
    """The last snapshot of each step and substep, in the order in which they began."""
    latest: dict[tuple[str | None, str], ProgressEvent] = {}
    for event in events:
        latest[event.parent, event.name] = event
    return list(latest.values())


def left_steps(events: Iterable[ProgressEvent]) -> list[ProgressEvent]:
    """The steps of a run that nobody finished: what ran has failed, what waited was skipped."""

    def ended(step: ProgressEvent) -> ProgressEvent:
        if step.state in _FINISHED:
            return step
        return step.model_copy(update={"state": "skipped" if step.state in _WAITING else "failed"})

    return [ended(step) for step in latest_steps(events)]


def checked_percentage(percentage: float | None, before: float | None) -> None:
    """Return when `percentage` may follow `before`. Raises ValueError: out of range, or backwards."""
    if percentage is None:
        return
    if not 0 <= percentage <= 100:
        raise ValueError("percentage must be between 0 and 100")
    if before is not None and percentage < before:
        raise ValueError("percentage cannot move backwards")


def without_non_finite(value: Any) -> Any:
    """`value` with None in place of NaN and infinities, which JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: without_non_finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_non_finite(each) for each in value]
    return value


def _end_state(error: str) -> str:
    return "failed" if error else "done"
