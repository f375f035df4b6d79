"""The component that keeps Task records: the interface, and the one on the local disk."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from axonx.components.base import BaseComponent
from axonx.components.job import LogEvent
from axonx.components.registry import provider
from axonx.task.event_log import EventPage, read_events, read_last_events
from axonx.task.identity import TaskType
from axonx.task.metadata import TaskMetadata, TaskState
from axonx.task.records import TaskRecords
from axonx.task.run_log import read_log_window


class BaseTaskRepository(BaseComponent, ABC):
    """Records, progress events and logs of Tasks. Errors are those of `TaskRecords`."""

    component_type = "task_repository"

    @abstractmethod
    async def entry(self, task_id: str) -> TaskMetadata:
        """The Task's current record. Raises TaskNotFoundError, ValueError."""

    @abstractmethod
    async def find(self, task_id: str) -> TaskMetadata | None:
        """The Task's current record, None when there is none."""

    @abstractmethod
    async def entries(
        self, *, task_type: TaskType | None = None, state: TaskState | None = None
    ) -> list[TaskMetadata]:
        """All matching records, oldest first."""

    @abstractmethod
    async def claim(self, record: TaskMetadata) -> None:
        """Make `record` the Task's current run. Raises ActiveTaskError."""

    @abstractmethod
    async def update(
        self, task_id: str, run_id: str, change: Callable[[TaskMetadata], TaskMetadata]
    ) -> TaskMetadata:
        """Change the record of exactly that run unless it has ended, and return it."""

    @abstractmethod
    async def delete(self, task_id: str) -> None:
        """Remove a Task that is not active. Raises TaskNotFoundError, ActiveTaskError."""

    @abstractmethod
    async def events(self, task_id: str, offset: int = 0) -> EventPage:
        """Progress events from a byte offset on; a negative one gives the last events."""

    @abstractmethod
    async def log(self, task_id: str, offset: int, limit: int) -> LogEvent:
        """A window of the current run's log."""

    @abstractmethod
    def log_path(self, task_id: str) -> Path:
        """The file that takes what a worker on this machine writes."""


@provider("local")
class LocalTaskRepository(BaseTaskRepository):
    """Records in the workspace directory; the work is done in threads."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.records = TaskRecords(self.workspace_path)

    async def _start(self) -> None:
        await asyncio.to_thread(self.records.empty_trash)

    async def entry(self, task_id: str) -> TaskMetadata:
        return await asyncio.to_thread(self.records.read, task_id)

    async def find(self, task_id: str) -> TaskMetadata | None:
        return await asyncio.to_thread(self.records.find, task_id)

    async def entries(
        self, *, task_type: TaskType | None = None, state: TaskState | None = None
    ) -> list[TaskMetadata]:
        return await asyncio.to_thread(self.records.find_all, task_type, state)

    async def claim(self, record: TaskMetadata) -> None:
        await asyncio.to_thread(self.records.claim, record)

    async def update(
        self, task_id: str, run_id: str, change: Callable[[TaskMetadata], TaskMetadata]
    ) -> TaskMetadata:
        return await asyncio.to_thread(self.records.update, task_id, run_id, change)

    async def delete(self, task_id: str) -> None:
        await asyncio.to_thread(self.records.delete, task_id)

    async def events(self, task_id: str, offset: int = 0) -> EventPage:
        path = self.records.layout.events_path(task_id)
        if offset < 0:
            return await asyncio.to_thread(read_last_events, path)
        return await asyncio.to_thread(read_events, path, offset)

    async def log(self, task_id: str, offset: int, limit: int) -> LogEvent:
        return await asyncio.to_thread(read_log_window, self.log_path(task_id), offset, limit)

    def log_path(self, task_id: str) -> Path:
        return self.records.layout.log_path(task_id)
