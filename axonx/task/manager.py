"""The component that runs Tasks in workers, and what it answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from axonx.components.base import BaseComponent
from axonx.components.job import LogEvent
from axonx.components.job.events import StepEvent
from axonx.task.identity import TaskType
from axonx.task.metadata import TaskMetadata, TaskState
from axonx.task.run_log import DEFAULT_WINDOW_BYTES


@dataclass(frozen=True)
class TaskHandle:
    """A run that was started: ask for it by both ids."""

    task_id: str
    run_id: str
    task: str


class BaseTaskManager(BaseComponent, ABC):
    """Starts Tasks in workers and answers for them."""

    component_type = "task_manager"

    @abstractmethod
    async def submit(self, task: str, arguments: Mapping[str, Any]) -> TaskHandle:
        """Start the registered Task `task` in a worker.

        Raises UnknownTaskError, TypeError and ValueError for its input, TaskImportError for a class
        that a worker cannot import, ActiveTaskError while a run of the same name is active.
        """

    @abstractmethod
    async def wait(
        self, task_id: str, run_id: str, poll_interval: float = 1.0, timeout_seconds: float | None = None
    ) -> TaskMetadata:
        """The record of the run once it has ended. Raises TaskRunChangedError, TimeoutError."""

    @abstractmethod
    async def cancel(self, task_id: str | None = None, run_id: str | None = None) -> bool:
        """End a run; False when it had ended by itself. Raises TaskNotFoundError, TaskRunChangedError."""

    @abstractmethod
    async def delete(self, task_ids: Sequence[str]) -> list[str]:
        """Remove Tasks that are not active, and return their ids. Raises before it removes any."""

    @abstractmethod
    async def get_status(self, task_id: str) -> TaskMetadata:
        """The current record; the steps of an active run are those of its latest events."""

    @abstractmethod
    async def list_statuses(
        self, *, task_type: TaskType | None = None, state: TaskState | None = None
    ) -> list[TaskMetadata]:
        """All matching records, oldest first."""

    @abstractmethod
    async def read_log(
        self,
        task_id: str,
        offset: int = -1,
        limit: int = DEFAULT_WINDOW_BYTES,
        *,
        run_id: str | None = None,
    ) -> LogEvent:
        """A window of the log, by byte offset; a negative one reads its end."""

    @abstractmethod
    def stream(self, task_id: str, poll_interval: float = 0.5) -> AsyncIterator[StepEvent]:
        """Progress and log of the current run from their beginning until the run has ended."""

    async def list_ids(self) -> list[str]:
        """The IDs of all Tasks, oldest first."""
        return [record.task_id for record in await self.list_statuses()]
