"""`BaseTask`: what an author of a Task writes, and what the Task may ask of its run."""

from __future__ import annotations

import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from axonx.components.registry import provider_name
from axonx.task.artifacts import ArtifactRecord, confined_artifact_path, describe_artifact, verify_artifact
from axonx.task.errors import ArtifactError
from axonx.task.identity import (
    TaskIdentity,
    TaskType,
    generated_task_name,
    new_run_id,
    timezone_named,
    validate_registration_name,
)
from axonx.task.layout import PERSISTENT_DIRECTORY
from axonx.task.metadata import TaskState
from axonx.task.params import BaseInputParams, BaseOutputParams
from axonx.task.progress import TaskProgress
from axonx.task.records import TaskRecords

#: One step of a Task: a synchronous callable without arguments; what it returns is ignored.
TaskStep: TypeAlias = Callable[[], None]

_task_logger = logging.getLogger("axonx.task")
_task_logger.addHandler(logging.NullHandler())


class BaseTask(ABC):
    """A typed, synchronous unit of research: input, steps, output, published files.

    Subclasses set the class attributes, yield their steps from `build_task_steps` and return an
    `output_cls` from `build_output_params`. The docstring of the class is its description.
    `state` is the Task's own, for what one step leaves to the next.
    """

    component_type: ClassVar[str] = "task"
    task_type: ClassVar[TaskType] = TaskType.BASE
    input_cls: ClassVar[type[BaseInputParams]] = BaseInputParams
    output_cls: ClassVar[type[BaseOutputParams]] = BaseOutputParams
    category: ClassVar[str | None] = None

    def __init__(
        self,
        input_params: BaseInputParams | Mapping[str, Any],
        *,
        workspace_path: str | Path,
        reg_name: str | None = None,
        timezone: str = "UTC",
        task_id: str | None = None,
        run_id: str | None = None,
        created_at: datetime | None = None,
    ) -> None:
        self.timezone = timezone_named(timezone)
        self.created_at = created_at or datetime.now(self.timezone)
        self.input_params = validated_input(type(self), input_params)
        self.identity = identity_of(
            type(self), self.input_params, reg_name=reg_name, task_id=task_id, created_at=self.created_at
        )
        self.run_id = run_id or new_run_id()
        self.state: dict[str, Any] = {}
        self.logger = task_logger(self.reg_name)
        self._records = TaskRecords(Path(workspace_path).absolute())
        self._progress: TaskProgress | None = None
        self._published: dict[str, ArtifactRecord] = {}
        self._output_params: BaseOutputParams | None = None

    def attach(self, progress: TaskProgress, logger: logging.Logger) -> None:
        """Bind the Task to the run that executes it; for the framework."""
        self._progress = progress
        self.logger = logger

    def attach_output(self, output_params: BaseOutputParams) -> None:
        """Keep the verified output; for the framework."""
        self._output_params = output_params

    @property
    def published_artifacts(self) -> dict[str, ArtifactRecord]:
        """What `publish_artifact` has published so far, by name."""
        return dict(self._published)

    @abstractmethod
    def build_task_steps(self) -> Iterable[TaskStep]:
        """The steps in their order. A generator is advanced only when the step before has ended, so
        what it yields next may depend on `self.state`."""

    @abstractmethod
    def build_output_params(self) -> BaseOutputParams:
        """The result, an instance of `output_cls`; called once, after the last step."""

    def on_failure(self, error: BaseException) -> None:  # noqa: B027 - optional hook
        """Called once with what ended the run, a cancellation included, and before `close`."""

    def close(self) -> None:  # noqa: B027 - optional hook
        """Called last in every run whose constructor returned, however the run went."""

    def exit_code(self, output: dict[str, Any]) -> int:
        """0 for success; 1 to 255 lets the run fail although all steps ended well.

        `output` is the output as JSON values.
        """
        return 0

    @property
    def task_id(self) -> str:
        """`<type>#<registered name>#<task name>`."""
        return str(self.identity)

    @property
    def reg_name(self) -> str:
        """The name that the Task's class is registered under."""
        return self.identity.reg_name

    @property
    def workspace_path(self) -> Path:
        return self._records.layout.workspace_path

    @property
    def task_dir(self) -> Path:
        """The directory for the files of this run; the next run of the same name begins with it empty."""
        return self._records.layout.task_dir(self.task_id)

    @property
    def persistent_dir(self) -> Path:
        """The directory whose files stay for the next run of the same name."""
        return self.task_dir / PERSISTENT_DIRECTORY

    @property
    def output_params(self) -> BaseOutputParams:
        """The result. Raises RuntimeError before the steps have ended."""
        if self._output_params is None:
            raise RuntimeError(f"Task has no output yet: {self.task_id}")
        return self._output_params

    @property
    def output(self) -> dict[str, Any]:
        """The result as JSON values. Raises RuntimeError before the steps have ended."""
        return self.output_params.model_dump(mode="json")

    def report_progress(
        self, percentage: float | None = None, *, name: str | None = None, **changes: Any
    ) -> None:
        """Say how far the running step is (0 to 100, never backwards), or its substep `name`.

        `changes` are further fields of a ProgressEvent: label, state, phase, completed, total,
        unit, metrics, files and so on. Raises RuntimeError between steps, ValueError.
        """
        if self._progress is None:
            raise RuntimeError("report_progress() works only while a step of the Task runs")
        self._progress.report(percentage, name, changes)

    def publish_artifact(
        self, name: str, path: str | Path, *, media_type: str | None = None
    ) -> ArtifactRecord:
        """Publish the finished file `path`, relative to `task_dir` or inside it, as `name`.

        The record becomes part of the output. The file must not change any more: it is verified
        when the Task ends. Raises ValueError for a path that leaves the directory or is no file.
        """
        record = describe_artifact(self.task_dir, name, self._relative_to_task(path), media_type)
        self._published[name] = record
        return record

    def _relative_to_task(self, path: str | Path) -> str:
        absolute = Path(path)
        if not absolute.is_absolute():
            return path if isinstance(path, str) else path.as_posix()
        if not absolute.is_relative_to(self.task_dir):
            raise ArtifactError(f"Artifact must be a relative task path or inside {self.task_dir}: {path}")
        return absolute.relative_to(self.task_dir).as_posix()

    def artifact_path(self, name: str) -> Path:
        """The file that this Task published as `name`. Raises ArtifactError when there is none."""
        known = dict(self._published)
        if self._output_params is not None:
            known |= self._output_params.artifacts
        if name not in known:
            raise ArtifactError(f"Artifact {name!r} is not published by {self.task_id}")
        return confined_artifact_path(self.task_dir, name, known[name].path)

    def source_output(self, task_id: str) -> dict[str, Any]:
        """The output of the source Task `task_id`, as JSON values.

        Raises ValueError when it is not in `source_tasks` or has not succeeded, TaskNotFoundError.
        """
        if task_id not in self.input_params.source_task_ids():
            raise ValueError(f"Task {task_id} is not in source_tasks of {self.task_id}; name it there")
        record = self._records.read(task_id)
        if record.state != TaskState.SUCCEEDED:
            raise ValueError(f"Source Task has not succeeded: {task_id} is {record.state}")
        return record.output_params

    def source_artifact(self, task_id: str, name: str) -> Path:
        """The file that the source Task published as `name`, verified once more against its record.

        Raises what `source_output` raises, and ArtifactError: unknown, missing or changed.
        """
        artifacts = self.source_output(task_id).get("artifacts", {})
        if name not in artifacts:
            known = ", ".join(artifacts) or "none"
            raise ArtifactError(f"Artifact {name!r} is not published by {task_id}; it has: {known}")
        record = ArtifactRecord.model_validate(artifacts[name])
        directory = self._records.layout.task_dir(task_id)
        verify_artifact(directory, f"{task_id}:{name}", record)
        return confined_artifact_path(directory, name, record.path)


def task_logger(reg_name: str) -> logging.Logger:
    """A logger for one run, below `axonx.task`; it is not kept by `logging`, so it ends with its run."""
    logger = logging.Logger(f"axonx.task.{reg_name}", logging.INFO)
    logger.parent = _task_logger
    return logger


def validated_input(
    task_cls: type[BaseTask], input_params: BaseInputParams | Mapping[str, Any]
) -> BaseInputParams:
    """The input as an instance of the Task's `input_cls`.

    Raises TypeError for other models, pydantic's ValidationError (a ValueError) for wrong values.
    """
    if isinstance(input_params, task_cls.input_cls):
        return input_params
    if not isinstance(input_params, Mapping):
        expected, found = task_cls.input_cls.__name__, type(input_params).__name__
        raise TypeError(f"{task_cls.__name__} takes a {expected} or a mapping, got {found}")
    return task_cls.input_cls.model_validate(dict(input_params))


def identity_of(
    task_cls: type[BaseTask],
    input_params: BaseInputParams,
    *,
    reg_name: str | None,
    task_id: str | None,
    created_at: datetime,
) -> TaskIdentity:
    """Who the Task is. Raises ValueError: unnamed, not the given `task_id`, or its own source."""
    name = reg_name or provider_name(task_cls)
    if task_id is not None:
        identity = TaskIdentity.parse(task_id)
    elif name is None:
        raise ValueError(f"{task_cls.__name__} has no registered name: decorate it with @provider(name)")
    else:
        task_name = input_params.task_name or generated_task_name(created_at)
        identity = TaskIdentity(task_cls.task_type, validate_registration_name(name), task_name)
    if identity.task_type != task_cls.task_type or (name is not None and identity.reg_name != name):
        raise ValueError(f"Task ID {task_id} does not belong to {task_cls.task_type}#{name}")
    if str(identity) in input_params.source_task_ids():
        raise ValueError(f"A Task cannot be its own source: {identity}")
    return identity


def description_of(task_cls: type[BaseTask]) -> str:
    """The cleaned docstring of the class itself; empty when it has none."""
    return inspect.cleandoc(vars(task_cls).get("__doc__") or "")
