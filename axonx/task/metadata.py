"""The record of one Task run: one JSON document, whole at any moment."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from axonx.components.job import ProgressEvent
from axonx.task.identity import TaskType
from axonx.task.process import ProcessIdentity

_LONGEST_ERROR_CHARACTERS = 8192


class TaskState(StrEnum):
    """Where a run stands; the last three are final and never change again."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return self in (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED)


class TaskSource(BaseModel):
    """How the run was started: `submit` in a worker process, `exec` in the caller's own."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["submit", "exec"]


class TaskMetadata(BaseModel):
    """What is known of one run of a Task.

    `supervisor` is the process that settles the run, `pid` and `process_started` the one that
    executes it: on this machine, or on that of the cluster's worker `host` (its address). `log_path`
    is relative to the workspace. `steps` are filled in when the run ends; until then `events.jsonl`
    holds them. `exit_code` is 0 until then.
    """

    model_config = ConfigDict(frozen=True)

    version: Literal[1] = 1
    task_id: str
    run_id: str = Field(min_length=1)
    task_type: TaskType
    reg_name: str
    category: str | None = None
    source: TaskSource
    timezone: str = "UTC"
    state: TaskState = TaskState.QUEUED
    cancel_requested: bool = False
    supervisor: ProcessIdentity
    pid: int | None = None
    process_started: str = ""
    host: str = ""
    created_at: AwareDatetime
    started_at: AwareDatetime | None = None
    finished_at: AwareDatetime | None = None
    error: str = ""
    exit_code: int = Field(default=0, ge=0, le=255)
    input_params: dict[str, Any] = Field(default_factory=dict)
    output_params: dict[str, Any] = Field(default_factory=dict)
    steps: list[ProgressEvent] = Field(default_factory=list)
    log_path: str = ""

    @property
    def worker(self) -> ProcessIdentity | None:
        """The process of this machine that executes the run; None before it has said so, or elsewhere."""
        if self.pid is None or self.host:
            return None
        return ProcessIdentity(pid=self.pid, started=self.process_started)

    def is_abandoned(self) -> bool:
        """Whether nobody will bring an active run to its end: its supervisor or its worker is gone."""
        if self.state.is_terminal:
            return False
        worker = self.worker
        return not self.supervisor.is_alive() or (worker is not None and not worker.is_alive())

    def with_changes(self, **changes: Any) -> Self:
        """A validated copy. Raises pydantic's ValidationError, so no invalid record is ever written."""
        return self.model_validate(
            {**{name: getattr(self, name) for name in type(self).model_fields}, **changes}
        )

    def ended(self, state: TaskState, finished_at: datetime, *, exit_code: int = 0, error: str = "") -> Self:
        """The same run, brought to its end."""
        return self.with_changes(
            state=state, finished_at=finished_at, exit_code=exit_code, error=printable(error)
        )


def request_cancel(record: TaskMetadata) -> TaskMetadata:
    """The record of a run that is to end: whoever settles it now settles it as cancelled."""
    return record.with_changes(cancel_requested=True)


def printable(text: str) -> str:
    """`text` as it can be written in UTF-8 and shown in a list: bounded, lone surrogates replaced."""
    whole = text.encode(errors="replace").decode()
    if len(whole) <= _LONGEST_ERROR_CHARACTERS:
        return whole
    return whole[:_LONGEST_ERROR_CHARACTERS] + " ..."


def summary_of(metadata: TaskMetadata) -> dict[str, Any]:
    """The record as JSON values without input, output and steps, for lists."""
    return metadata.model_dump(mode="json", exclude={"input_params", "output_params", "steps"})
