"""What can go wrong with a Task, apart from what its own steps raise."""

from __future__ import annotations

from pathlib import Path

from axonx.errors import AxonXError


class TaskError(AxonXError):
    """The root of the errors of Tasks."""


class ArtifactError(TaskError, ValueError):
    """A published file is missing, changed, or not where it may be."""


class ActiveTaskError(TaskError, FileExistsError):
    """The Task has a run that has not ended, so it can neither be started again nor deleted."""


class TaskNotFoundError(TaskError, FileNotFoundError):
    """The workspace holds no record of the Task."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"Task not found: {task_id}")
        self.task_id = task_id


class TaskRunChangedError(TaskError, ValueError):
    """The Task was started again, so the run that was asked for is no longer its current one."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"Task run changed: {task_id}")
        self.task_id = task_id


class TaskRecordError(TaskError, RuntimeError):
    """A record was damaged by something other than this package."""

    def __init__(self, path: Path, reason: Exception) -> None:
        super().__init__(
            f"Task record cannot be read: {path}: {reason}; restore the file or remove its directory"
        )
        self.path = path


class TaskLockError(TaskError, TimeoutError):
    """Another process held the lock of a Task's record for too long."""

    def __init__(self, task_id: str, path: Path, seconds: float) -> None:
        super().__init__(f"Task record is locked for more than {seconds:g} s: {task_id} ({path})")
        self.task_id = task_id


class TaskImportError(TaskError, ValueError):
    """A worker process could not import the Task's class."""


class UnknownTaskError(TaskError, ValueError):
    """No Task is registered under the name."""


class TaskInputError(TaskError, ValueError):
    """The input cannot be handed to a worker process without a change."""


class ForeignRunError(TaskError, ValueError):
    """The run belongs to a process that this one must not end."""


class TasksClosedError(TaskError, RuntimeError):
    """The application takes no Tasks: it is not running, or closing."""


class TaskDefinitionError(TaskError, TypeError):
    """A class is registered as a Task but cannot be one."""


class TaskExitError(TaskError):
    """The Task's own exit code says that it failed."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"Task exited with code {exit_code}")
        self.exit_code = exit_code


class TaskCancelled(BaseException):
    """The run is to end now: a request like KeyboardInterrupt, raised in the Task's main thread."""


class TaskOrphaned(BaseException):
    """The service that supervised the run is gone; raised like TaskCancelled."""
