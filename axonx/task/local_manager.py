"""The Task manager of one service: it supervises a worker for each run and settles what they leave."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from axonx.components.job import LogEvent
from axonx.components.job.events import StepEvent
from axonx.components.registry import provider
from axonx.task.catalogue import TaskCatalogue
from axonx.task.errors import (
    ActiveTaskError,
    ForeignRunError,
    TaskNotFoundError,
    TaskRunChangedError,
    TasksClosedError,
)
from axonx.task.execute import settled_without_result
from axonx.task.follow import follow_run, latest_steps
from axonx.task.identity import TaskType
from axonx.task.manager import BaseTaskManager, TaskHandle
from axonx.task.metadata import TaskMetadata, TaskState, request_cancel
from axonx.task.repository import BaseTaskRepository
from axonx.task.run_log import DEFAULT_WINDOW_BYTES
from axonx.task.runner import BaseTaskRunner, LocalTaskRunner, WorkerLaunch
from axonx.task.submission import Submission, prepare_submission

# More than a worker may take to exit once its record has ended, and than a cancellation takes.
_WORKER_EXIT_SECONDS = 30


@dataclass(eq=False)
class _SupervisedRun:
    submission: Submission
    # Set once the worker runs, with None, or with the reason why it does not.
    started: asyncio.Future[Exception | None]
    finished: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def record(self) -> TaskMetadata:
        return self.submission.record


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
        self._runs: dict[str, _SupervisedRun] = {}
        self._supervisions: set[asyncio.Task[None]] = set()
        self._open = False
        self.depend("repository", task_repository, BaseTaskRepository)
        self.depend("configured_runner", task_runner, BaseTaskRunner, required=False)

    @property
    def runner(self) -> BaseTaskRunner:
        """Where workers run: the configured component, else processes of this machine."""
        configured: BaseTaskRunner | None = vars(self)["configured_runner"]
        return self._own_runner if configured is None else configured

    async def _start(self) -> None:
        for record in await self.repository.entries():
            await self._settle(record)
        self._open = True

    async def _close(self) -> None:
        self._open = False
        results = await asyncio.gather(*map(self._end, list(self._runs.values())), return_exceptions=True)
        errors = [result for result in results if isinstance(result, Exception)]
        if errors:
            raise ExceptionGroup("Task workers could not be ended", errors)

    async def submit(self, task: str, arguments: Mapping[str, Any]) -> TaskHandle:
        if self.app_context is None:
            raise TasksClosedError("Tasks can be submitted in an Application only")
        task_cls = TaskCatalogue(self.app_context.registry).resolve(task)
        prepare = partial(
            prepare_submission,
            task_cls,
            arguments,
            name=task,
            workspace_path=self.workspace_path,
            timezone=self.app_config.timezone,
        )
        submission = await asyncio.to_thread(prepare)
        task_id = submission.record.task_id
        last = await self.repository.find(task_id)
        if last is not None and (await self._settle(last)).state.is_terminal:
            await self._worker_gone(task_id)
        await self._start_supervision(submission)
        return TaskHandle(task_id, submission.record.run_id, task)

    async def wait(
        self, task_id: str, run_id: str, poll_interval: float = 1.0, timeout_seconds: float | None = None
    ) -> TaskMetadata:
        checked_interval(poll_interval)
        async with asyncio.timeout(timeout_seconds):
            while not (record := await self._current(task_id, run_id)).state.is_terminal:
                await self._pause(run_id, poll_interval)
            return record

    async def cancel(self, task_id: str | None = None, run_id: str | None = None) -> bool:
        record = await self._find_run(task_id, run_id)
        run = self._runs.get(record.run_id)
        if record.state.is_terminal:
            return False
        if run is not None:
            await self._end(run)
        else:
            await self._end_foreign(record)
        return (await self._current(record.task_id, record.run_id)).state == TaskState.CANCELLED

    async def delete(self, task_ids: Sequence[str]) -> list[str]:
        for task_id in task_ids:
            record = await self._settle(await self.repository.entry(task_id))
            if not record.state.is_terminal:
                raise ActiveTaskError(f"Active Task cannot be deleted: {task_id}; cancel it first")
        for task_id in task_ids:
            await self._worker_gone(task_id)
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
        pause = partial(self._pause, run_id, poll_interval)
        async for event in follow_run(self.repository, current, pause):
            yield event

    async def _start_supervision(self, submission: Submission) -> None:
        if not self._open:
            raise TasksClosedError("Tasks cannot be submitted: the application is not running")
        run = _SupervisedRun(submission, asyncio.get_running_loop().create_future())
        self._runs[run.record.run_id] = run
        supervision = asyncio.create_task(self._supervise(run), name=f"axonx-task:{run.record.task_id}")
        self._supervisions.add(supervision)
        supervision.add_done_callback(self._supervisions.discard)
        # A caller who goes away must not leave a claimed record without its worker.
        error = await asyncio.shield(run.started)
        if error is not None:
            raise error

    async def _supervise(self, run: _SupervisedRun) -> None:
        record = run.record
        try:
            run.started.set_result(error := await self._launch(run.submission))
            if error is None:
                worker_exit = await self.runner.wait(record.run_id)
                end = partial(
                    settled_without_result, exit_code=worker_exit.exit_code, reason=str(worker_exit)
                )
                with contextlib.suppress(TaskRunChangedError, TaskNotFoundError):
                    await self.repository.update(record.task_id, record.run_id, end)
        except Exception:  # the next start settles it again
            self.logger.exception("Task run could not be settled: %s", record.task_id)
        finally:
            self._runs.pop(record.run_id, None)
            run.finished.set()
            if not run.started.done():
                run.started.set_result(TasksClosedError("The Task was not started: the application is gone"))

    async def _launch(self, submission: Submission) -> Exception | None:
        record = submission.record
        try:
            await self.repository.claim(record)
        except Exception as error:  # noqa: BLE001 - raised again where the Task was submitted
            return error
        try:
            launch = WorkerLaunch(
                record,
                submission.target,
                self.workspace_path,
                self.repository.log_path(record.task_id),
                self.app_config.environment,
            )
            await self.runner.start_worker(launch)
        except Exception as error:  # noqa: BLE001 - as above
            end = partial(settled_without_result, reason=f"Task worker could not be started: {error}")
            await self.repository.update(record.task_id, record.run_id, end)
            return error
        return None

    async def _end(self, run: _SupervisedRun) -> None:
        record = run.record
        if await asyncio.shield(run.started) is not None:
            return
        with contextlib.suppress(TaskRunChangedError, TaskNotFoundError):
            await self.repository.update(record.task_id, record.run_id, request_cancel)
        await self.runner.cancel(record.run_id)
        async with asyncio.timeout(_WORKER_EXIT_SECONDS):
            await run.finished.wait()

    async def _end_foreign(self, record: TaskMetadata) -> None:
        if record.source.kind == "exec":
            raise ForeignRunError(
                f"Task runs inside process {record.supervisor.pid} (exec), which alone can end it: "
                f"{record.task_id}"
            )
        record = await self.repository.update(record.task_id, record.run_id, request_cancel)
        if await self.runner.settle(record) and record.worker is not None:
            await self.repository.update(record.task_id, record.run_id, settled_without_result)
        await self.wait(record.task_id, record.run_id, 0.2, _WORKER_EXIT_SECONDS)

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
        if record.state.is_terminal or record.run_id in self._runs:
            return record
        if not await asyncio.to_thread(record.is_abandoned):
            return record
        if not await self.runner.settle(record):
            self.logger.warning("What is left of an abandoned Task does not end: %s", record.task_id)
            return record
        self.logger.warning("Task was abandoned and is settled now: %s", record.task_id)
        return await self.repository.update(record.task_id, record.run_id, settled_without_result)

    async def _worker_gone(self, task_id: str) -> None:
        for run in [run for run in self._runs.values() if run.record.task_id == task_id]:
            try:
                async with asyncio.timeout(_WORKER_EXIT_SECONDS):
                    await run.finished.wait()
            except TimeoutError:
                raise ActiveTaskError(f"Task worker is still ending: {task_id}; try again later") from None

    async def _pause(self, run_id: str, seconds: float) -> None:
        run = self._runs.get(run_id)
        if run is None:
            await asyncio.sleep(seconds)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await run.finished.wait()


def checked_interval(poll_interval: float) -> None:
    """Return for a positive number of seconds. Raises ValueError."""
    if not poll_interval > 0:
        raise ValueError(f"poll_interval must be more than 0 seconds, got {poll_interval}")
