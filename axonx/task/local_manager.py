"""The Task manager of one service: it supervises a worker for each run and settles what they leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

from axonx.components.job import LogEvent
from axonx.components.job.events import StepEvent
from axonx.components.registry import provider
from axonx.errors import NoApplicationError
from axonx.task.catalogue import TaskCatalogue
from axonx.task.errors import (
    ActiveTaskError,
    ForeignRunError,
    TaskNotFoundError,
    TaskRunChangedError,
    TasksClosedError,
)
from axonx.task.follow import follow_run
from axonx.task.identity import TaskType
from axonx.task.manager import BaseTaskManager, TaskHandle
from axonx.task.metadata import TaskMetadata, TaskState, request_cancel
from axonx.task.progress import latest_steps
from axonx.task.repository import BaseTaskRepository
from axonx.task.run_log import DEFAULT_WINDOW_BYTES
from axonx.task.runner import BaseTaskRunner, LocalTaskRunner
from axonx.task.submission import SubmissionPlace, prepare_submission
from axonx.task.supervision import WORKER_EXIT_SECONDS, Supervision, Workplace


@provider("local")
class LocalTaskManager(BaseTaskManager):
    """Runs submitted Tasks in workers of this application; they end when it closes.

    `task_repository` and `task_runner` name components; without a runner, workers are processes of
    this machine that have `terminate_grace_seconds` to end when they are cancelled.
    """

    repository: BaseTaskRepository

    def __init__(
        self,
        task_repository: str = "default",
        task_runner: str | None = None,
        terminate_grace_seconds: float = 5,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._own_runner = LocalTaskRunner(
            terminate_grace_seconds=terminate_grace_seconds, name=self.name, app_context=self.app_context
        )
        self._supervision: Supervision | None = None
        self.depend("repository", task_repository, BaseTaskRepository)
        self.depend("configured_runner", task_runner, BaseTaskRunner, required=False)

    @property
    def runner(self) -> BaseTaskRunner:
        """Where workers run: the configured component, else processes of this machine."""
        configured: BaseTaskRunner | None = vars(self)["configured_runner"]
        return self._own_runner if configured is None else configured

    @property
    def supervision(self) -> Supervision:
        """The runs of this application. Raises TasksClosedError while it is not running."""
        if self._supervision is None:
            raise TasksClosedError("Tasks need a running application: start it first")
        return self._supervision

    async def _start(self) -> None:
        place = Workplace(
            self.repository, self.runner, self.workspace_path, self.app_config.environment, self.logger
        )
        self._supervision = Supervision(place)
        for record in await self.repository.entries():
            await self._settle(record)

    async def _close(self) -> None:
        supervision = self._supervision
        if supervision is not None:
            await supervision.close()
            self._supervision = None

    async def submit(self, task: str, arguments: Mapping[str, Any]) -> TaskHandle:
        supervision = self.supervision
        if self.app_context is None:
            raise NoApplicationError("Tasks can be submitted in an Application only")
        catalogue = TaskCatalogue(self.app_context.registry)
        place = SubmissionPlace(self.workspace_path, self.app_config.timezone)
        submission = await asyncio.to_thread(prepare_submission, catalogue, task, arguments, place)
        task_id = submission.record.task_id
        last = await self.repository.find(task_id)
        if last is not None and (await self._settle(last)).state.is_terminal:
            await supervision.worker_gone(last)
        await supervision.start(submission)
        return TaskHandle(task_id, submission.record.run_id, task)

    async def wait(
        self, task_id: str, run_id: str, poll_interval: float = 1.0, timeout_seconds: float | None = None
    ) -> TaskMetadata:
        checked_interval(poll_interval)
        async with asyncio.timeout(timeout_seconds):
            while not (record := await self._current(task_id, run_id)).state.is_terminal:
                await self.supervision.pause(run_id, poll_interval)
            return record

    async def cancel(self, task_id: str | None = None, run_id: str | None = None) -> bool:
        record = await self._find_run(task_id, run_id)
        if record.state.is_terminal:
            return False
        if self.supervision.covers(record.run_id):
            await self.supervision.end(record.run_id)
        else:
            await self._end_foreign(record)
        return (await self._current(record.task_id, record.run_id)).state == TaskState.CANCELLED

    async def delete(self, task_ids: Sequence[str]) -> list[str]:
        records = [await self._current(task_id) for task_id in task_ids]
        for record in records:
            if not record.state.is_terminal:
                raise ActiveTaskError(f"Active Task cannot be deleted: {record.task_id}; cancel it first")
        for record in records:
            await self.supervision.worker_gone(record)
        for task_id in task_ids:
            await self.repository.delete(task_id)
        return list(task_ids)

    async def get_status(self, task_id: str) -> TaskMetadata:
        record = await self._current(task_id)
        if record.state.is_terminal:
            return record
        page = await self.repository.events(task_id, -1)
        return record.with_changes(steps=latest_steps(page.events))

    async def list_statuses(
        self, *, task_type: TaskType | None = None, state: TaskState | None = None
    ) -> list[TaskMetadata]:
        records = [await self._settle(each) for each in await self.repository.entries(task_type=task_type)]
        return [record for record in records if state is None or record.state == state]

    async def read_log(
        self,
        task_id: str,
        offset: int = -1,
        limit: int = DEFAULT_WINDOW_BYTES,
        *,
        run_id: str | None = None,
    ) -> LogEvent:
        await self._current(task_id, run_id)
        return await self.repository.log(task_id, offset, limit)

    async def stream(self, task_id: str, poll_interval: float = 0.5) -> AsyncIterator[StepEvent]:
        checked_interval(poll_interval)
        run_id = (await self.repository.entry(task_id)).run_id
        current = partial(self._current, task_id, run_id)
        pause = partial(self.supervision.pause, run_id, poll_interval)
        async for event in follow_run(self.repository, current, pause):
            yield event

    async def _end_foreign(self, record: TaskMetadata) -> None:
        if record.source.kind == "exec":
            raise ForeignRunError(
                f"Task runs inside process {record.supervisor.pid} (exec), which alone can end it: "
                f"{record.task_id}"
            )
        record = await self.repository.update(record.task_id, record.run_id, request_cancel)
        if await self.runner.settle(record) and record.worker is not None:
            await self.supervision.end_without_result(record)
        await self.wait(record.task_id, record.run_id, 0.2, WORKER_EXIT_SECONDS)

    async def _find_run(self, task_id: str | None, run_id: str | None) -> TaskMetadata:
        if task_id is not None:
            return await self._current(task_id, run_id)
        if run_id is None:
            raise ValueError("cancel needs task_id or run_id")
        for record in await self.repository.entries():
            if record.run_id == run_id:
                return await self._settle(record)
        raise TaskNotFoundError(f"run {run_id}")

    async def _current(self, task_id: str, run_id: str | None = None) -> TaskMetadata:
        record = await self.repository.entry(task_id)
        if run_id is not None and record.run_id != run_id:
            raise TaskRunChangedError(task_id)
        return await self._settle(record)

    async def _settle(self, record: TaskMetadata) -> TaskMetadata:
        if record.state.is_terminal or self.supervision.covers(record.run_id):
            return record
        if not await asyncio.to_thread(record.is_abandoned):
            return record
        if not await self.runner.settle(record):
            self.logger.warning("What is left of an abandoned Task does not end: %s", record.task_id)
            return record
        self.logger.warning("Task was abandoned and is settled now: %s", record.task_id)
        return await self.supervision.end_without_result(record)


def checked_interval(poll_interval: float) -> None:
    """Return for a positive number of seconds. Raises ValueError."""
    if not poll_interval > 0:
        raise ValueError(f"poll_interval must be more than 0 seconds, got {poll_interval}")
