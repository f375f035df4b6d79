"""The story of one run of a Task: claimed, begun, worked through, ended. The same for exec and submit."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from axonx.task.artifacts import verify_artifact, verify_untouched
from axonx.task.base import BaseTask, identity_of, task_logger, validated_input
from axonx.task.errors import TaskCancelled, TaskError, TaskExitError, TaskOrphaned
from axonx.task.event_log import EventLogWriter
from axonx.task.identity import new_run_id, timezone_named
from axonx.task.interruption import Interruption, RunSignals
from axonx.task.metadata import TaskMetadata, TaskSource, TaskState
from axonx.task.outcome import describe_error, ended_by, settle_abandoned, succeeded, without_result
from axonx.task.params import BaseInputParams, BaseOutputParams
from axonx.task.process import this_process
from axonx.task.progress import TaskProgress
from axonx.task.records import TaskRecords
from axonx.task.stepping import call_step, opened_steps, step_name

_MOST_NAMES = 100
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@dataclass(frozen=True)
class TaskExecution:
    """How a run ended. `output_params` is None unless its steps and its verification ended well."""

    metadata: TaskMetadata
    output_params: BaseOutputParams | None = None

    @property
    def exit_code(self) -> int:
        return self.metadata.exit_code

    @property
    def output(self) -> dict[str, Any]:
        """The output as JSON values; empty when there is none."""
        return self.metadata.output_params


def execute_task(
    task_cls: type[BaseTask],
    input_params: BaseInputParams | Mapping[str, Any],
    *,
    workspace_path: str | Path,
    timezone: str = "UTC",
    reg_name: str | None = None,
    handle_signals: bool = False,
) -> TaskExecution:
    """Run a Task in this process and return how it ended; a failing Task does not raise.

    With `handle_signals`, which works in the main thread only, SIGTERM and SIGINT end the run as
    cancelled while it lasts; without it, Ctrl-C is recorded as well and raised again.

    Raises ValueError (pydantic's included) and TypeError for input that the Task does not take,
    and ActiveTaskError while a run of the same name is active.
    """
    records = TaskRecords(Path(workspace_path).absolute())
    request = TaskRequest(task_cls, validated_input(task_cls, input_params), timezone, reg_name)
    record = new_record(request, "exec", records)
    settle_abandoned(records, record.task_id)
    records.claim(record)
    claimed = ClaimedRun(
        records, record, lambda: task_cls, request.input_params, partial(_file_handler, records, record)
    )
    with RunSignals(claimed.interruption).installed() if handle_signals else contextlib.nullcontext():
        return run_claimed(claimed)


@dataclass(frozen=True)
class TaskRequest:
    """What is to run: a class, its validated input, and the name the class is registered under."""

    task_cls: type[BaseTask]
    input_params: BaseInputParams
    timezone: str = "UTC"
    reg_name: str | None = None


def new_record(request: TaskRequest, kind: str, records: TaskRecords) -> TaskMetadata:
    """A queued record that this process supervises; nothing is written. Raises ValueError."""
    created_at = datetime.now(timezone_named(request.timezone))
    identify = partial(
        identity_of,
        request.task_cls,
        request.input_params,
        reg_name=request.reg_name,
        task_id=None,
        created_at=created_at,
    )
    identity = identify()
    for _ in range(_MOST_NAMES):  # a generated name must not replace a Task that has the same by chance
        if request.input_params.task_name or not records.layout.task_dir(str(identity)).exists():
            break
        identity = identify()
    log_path = records.layout.log_path(str(identity)).relative_to(records.layout.workspace_path)
    return TaskMetadata(
        task_id=str(identity),
        run_id=new_run_id(),
        task_type=identity.task_type,
        reg_name=identity.reg_name,
        category=request.task_cls.category,
        source=TaskSource.model_validate({"kind": kind}),
        timezone=request.timezone,
        supervisor=this_process(),
        created_at=created_at,
        input_params=from_json(request.input_params.model_dump_json(by_alias=True, round_trip=True)),
        log_path=log_path.as_posix(),
    )


@dataclass(frozen=True)
class ClaimedRun:
    """A queued record, how this process comes by the class of its Task, and where its log goes."""

    records: TaskRecords
    record: TaskMetadata
    load: Callable[[], type[BaseTask]]
    input_params: BaseInputParams | Mapping[str, Any]
    open_log: Callable[[], logging.Handler]
    interruption: Interruption = field(default_factory=Interruption)


def run_claimed(claimed: ClaimedRun) -> TaskExecution:
    """Take a claimed record from queued to its end, in this process.

    Raises what keeps the framework itself from working, such as a full disk; a Task's own failure
    is in the record only.
    """
    records, record = claimed.records, claimed.record
    try:
        with contextlib.ExitStack() as stack:
            handler = stack.enter_context(contextlib.closing(claimed.open_log()))
            events = EventLogWriter(records.layout.events_path(record.task_id))
            stack.callback(events.close)
            return _TaskRun(claimed, events, handler).execute()
    except BaseException as error:
        reason = describe_error(error)
        with contextlib.suppress(OSError, TaskError):  # the next start settles what cannot be written now
            records.update(record.task_id, record.run_id, partial(without_result, reason=reason))
        raise


def _file_handler(records: TaskRecords, record: TaskMetadata) -> logging.Handler:
    handler = logging.FileHandler(records.layout.log_path(record.task_id), encoding="utf-8", errors="replace")
    handler.setFormatter(logging.Formatter(LOG_FORMAT))
    return handler


class _TaskRun:
    def __init__(self, claimed: ClaimedRun, events: EventLogWriter, handler: logging.Handler) -> None:
        self._claimed = claimed
        self._record = claimed.record
        self._timezone = timezone_named(claimed.record.timezone)
        self._progress = TaskProgress(events.append, self._now)
        self._logger = task_logger(claimed.record.reg_name)
        self._logger.addHandler(handler)

    def execute(self) -> TaskExecution:
        begun = self._update(self._begun)
        if begun.state != TaskState.RUNNING:  # ended by someone else before it began
            return TaskExecution(begun)
        try:
            output, output_json = self._work()
        except BaseException as error:
            self._log_end(error)
            execution = TaskExecution(self._end(partial(ended_by, error=error)))
            if isinstance(error, KeyboardInterrupt):
                raise
            return execution
        ended = self._end(partial(succeeded, output_json=output_json))
        return TaskExecution(ended, output if ended.state == TaskState.SUCCEEDED else None)

    def _work(self) -> tuple[BaseOutputParams, dict[str, Any]]:
        with self._claimed.interruption.armed():
            task = self._build_task()
        try:
            with self._claimed.interruption.armed():
                self._advance(task)
                output = checked_output(task)
                output_json = from_json(output.model_dump_json())
                check_exit_code(task, output_json)
        except BaseException as error:
            self._call_hook("on_failure", partial(task.on_failure, error))
            self._call_hook("close", task.close)
            raise
        task.close()
        for name, artifact in output.artifacts.items():
            verify_untouched(task.task_dir, name, artifact)
        return output, output_json

    def _build_task(self) -> BaseTask:
        task = self._claimed.load()(
            self._claimed.input_params,
            workspace_path=self._claimed.records.layout.workspace_path,
            reg_name=self._record.reg_name,
            timezone=self._record.timezone,
            task_id=self._record.task_id,
            run_id=self._record.run_id,
            created_at=self._record.created_at.astimezone(self._timezone),
        )
        task.attach(self._progress, self._logger)
        return task

    def _advance(self, task: BaseTask) -> None:
        with opened_steps(task.build_task_steps()) as steps:
            for step in steps:
                name = step_name(step)
                self._logger.info("Step %s", name)
                self._progress.begin_step(name)
                try:
                    call_step(step, name)
                except BaseException as error:
                    self._progress.end_step(describe_error(error))
                    raise
                self._progress.end_step()

    def _call_hook(self, name: str, hook: Callable[[], None]) -> None:
        try:
            hook()
        except BaseException as error:
            self._logger.error("%s() failed as well", name, exc_info=error)

    def _log_end(self, error: BaseException) -> None:
        if isinstance(error, TaskCancelled | TaskOrphaned | TaskExitError):
            self._logger.error("%s", error)
        else:
            self._logger.error("Task failed", exc_info=error)

    def _begun(self, record: TaskMetadata) -> TaskMetadata:
        if record.cancel_requested:
            return without_result(record)
        process = this_process()
        return record.with_changes(
            state=TaskState.RUNNING, started_at=self._now(), pid=process.pid, process_started=process.started
        )

    def _end(self, change: Callable[[TaskMetadata, datetime], TaskMetadata]) -> TaskMetadata:
        try:
            self._progress.repeat_all()
        except OSError as error:
            self._logger.error("The last events could not be written", exc_info=error)
        steps = self._progress.snapshots
        return self._update(lambda record: change(record.with_changes(steps=steps), self._now()))

    def _update(self, change: Callable[[TaskMetadata], TaskMetadata]) -> TaskMetadata:
        return self._claimed.records.update(self._record.task_id, self._record.run_id, change)

    def _now(self) -> datetime:
        return datetime.now(self._timezone)


def checked_output(task: BaseTask) -> BaseOutputParams:
    """The Task's output with its artifacts verified. Raises TypeError, ArtifactError."""
    output = task.build_output_params()
    if not isinstance(output, task.output_cls):
        name, expected = type(task).__name__, task.output_cls.__name__
        raise TypeError(f"{name}.build_output_params must return {expected}")
    published = task.published_artifacts | output.artifacts
    verified = {name: verify_artifact(task.task_dir, name, record) for name, record in published.items()}
    output = output.model_copy(update={"artifacts": verified})
    task.attach_output(output)
    return output


def check_exit_code(task: BaseTask, output_json: dict[str, Any]) -> None:
    """Return when the Task's own exit code is 0. Raises TaskExitError, TypeError, ValueError."""
    code = task.exit_code(output_json)
    name = type(task).__name__
    if not isinstance(code, int):
        raise TypeError(f"{name}.exit_code must return an integer from 0 to 255, got {type(code).__name__}")
    if not 0 <= code <= 255:
        raise ValueError(f"{name}.exit_code must return an integer from 0 to 255, got {code}")
    if code:
        raise TaskExitError(int(code))
