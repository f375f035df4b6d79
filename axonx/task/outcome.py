"""How a run ends: by its output, by an error, or by what is found of it afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from axonx.components.job import ProgressEvent
from axonx.task.errors import TaskCancelled, TaskExitError, TaskOrphaned
from axonx.task.event_log import read_last_events
from axonx.task.identity import timezone_named
from axonx.task.metadata import TaskMetadata, TaskState, printable
from axonx.task.progress import left_steps
from axonx.task.records import TaskRecords

CANCELLED_EXIT_CODE = 130
CANCELLED_ERROR = "Task cancelled"


def settle_abandoned(records: TaskRecords, task_id: str) -> TaskMetadata | None:
    """The Task's record, brought to its end when nobody else will do that and its worker is gone too."""
    record = records.find(task_id)
    if record is None or not record.is_abandoned():
        return record
    worker = record.worker
    if worker is not None and worker.is_alive():
        return record
    events = read_last_events(records.layout.events_path(task_id)).events
    return records.update(task_id, record.run_id, lambda current: without_result(current, events))


def without_result(
    record: TaskMetadata, events: Iterable[ProgressEvent] = (), *, exit_code: int = 1, reason: str = ""
) -> TaskMetadata:
    """How an active record ends whose worker left no result: as cancelled if that was asked for.

    `events` are what the worker wrote, for the state of the steps.
    """
    now = datetime.now(timezone_named(record.timezone))
    record = record.with_changes(steps=left_steps(events))
    if record.cancel_requested:
        return record.ended(TaskState.CANCELLED, now, exit_code=CANCELLED_EXIT_CODE, error=CANCELLED_ERROR)
    error = reason or "The process that ran this Task ended without a result"
    return record.ended(TaskState.FAILED, now, exit_code=exit_code, error=error)


def describe_error(error: BaseException) -> str:
    """One line or more for the record: the text alone where it says everything, else type and text."""
    if isinstance(error, TaskCancelled | KeyboardInterrupt):
        return CANCELLED_ERROR
    if isinstance(error, TaskOrphaned | TaskExitError):
        return str(error)
    return printable(f"{type(error).__name__}: {error}")


def succeeded(record: TaskMetadata, now: datetime, *, output_json: dict[str, Any]) -> TaskMetadata:
    """How a record ends with an output."""
    return record.with_changes(output_params=output_json).ended(TaskState.SUCCEEDED, now)


def ended_by(record: TaskMetadata, now: datetime, *, error: BaseException) -> TaskMetadata:
    """How a record ends by what the Task, or a signal, raised."""
    text = describe_error(error)
    if isinstance(error, TaskCancelled | KeyboardInterrupt):
        return record.ended(TaskState.CANCELLED, now, exit_code=CANCELLED_EXIT_CODE, error=text)
    code = error.exit_code if isinstance(error, TaskExitError) else 1
    return record.ended(TaskState.FAILED, now, exit_code=code, error=text)
