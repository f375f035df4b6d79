"""One worker for each submitted run: started, watched, ended, and settled when it is gone."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from axonx.task.errors import ActiveTaskError, TaskNotFoundError, TaskRunChangedError, TasksClosedError
from axonx.task.metadata import TaskMetadata, request_cancel
from axonx.task.outcome import without_result
from axonx.task.repository import BaseTaskRepository
from axonx.task.runner import BaseTaskRunner, WorkerLaunch
from axonx.task.submission import Submission

# More than a worker may take to exit once its record has ended, and than a cancellation takes.
WORKER_EXIT_SECONDS = 30
_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Workplace:
    """What all workers of one application have in common."""

    repository: BaseTaskRepository
    runner: BaseTaskRunner
    workspace_path: Path
    environment: Mapping[str, str]
    logger: logging.Logger


@dataclass(eq=False)
class _SupervisedRun:
    submission: Submission
    # Set once the worker runs, with None, or with the reason why it does not.
    started: asyncio.Future[Exception | None]
    finished: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def record(self) -> TaskMetadata:
        return self.submission.record


class Supervision:
    """The runs whose workers this application watches; open until `close`."""

    def __init__(self, workplace: Workplace) -> None:
        self._place = workplace
        self._runs: dict[str, _SupervisedRun] = {}
        self._asyncio_tasks: set[asyncio.Task[None]] = set()
        self._open = True

    def covers(self, run_id: str) -> bool:
        """Whether the worker of the run is watched here."""
        return run_id in self._runs

    async def start(self, submission: Submission) -> None:
        """Claim the record and start its worker. Raises ActiveTaskError, TasksClosedError, OSError."""
        if not self._open:
            raise TasksClosedError("Tasks cannot be submitted: the application is closing")
        run = _SupervisedRun(submission, asyncio.get_running_loop().create_future())
        self._runs[run.record.run_id] = run
        # In a context of its own: the run outlives the call that submitted it.
        asyncio_task = asyncio.create_task(
            self._supervise(run), name=f"axonx-task:{run.record.task_id}", context=contextvars.Context()
        )
        self._asyncio_tasks.add(asyncio_task)
        asyncio_task.add_done_callback(self._asyncio_tasks.discard)
        # A caller who goes away must not leave a claimed record without its worker.
        error = await asyncio.shield(run.started)
        if error is not None:
            raise error

    async def end(self, run_id: str) -> None:
        """Cancel a run that is covered; returns when its record is settled. Raises TimeoutError."""
        await self._end(self._runs[run_id])

    async def close(self) -> None:
        """Cancel all runs and take no more. Raises an ExceptionGroup of what failed."""
        self._open = False
        results = await asyncio.gather(*map(self._end, list(self._runs.values())), return_exceptions=True)
        errors = [result for result in results if isinstance(result, Exception)]
        if errors:
            raise ExceptionGroup("Task workers could not be ended", errors)

    async def pause(self, run_id: str, seconds: float) -> None:
        """Sleep, but not longer than until the run is settled where it is covered."""
        run = self._runs.get(run_id)
        if run is None:
            await asyncio.sleep(seconds)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await run.finished.wait()

    async def worker_gone(self, record: TaskMetadata) -> None:
        """Return when no worker of an ended run is left. Raises ActiveTaskError after half a minute."""
        run, worker = self._runs.get(record.run_id), record.worker
        try:
            async with asyncio.timeout(WORKER_EXIT_SECONDS):
                if run is not None:
                    await run.finished.wait()
                elif worker is not None and record.source.kind == "submit":
                    while await asyncio.to_thread(worker.is_alive):
                        await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            raise ActiveTaskError(f"Task worker is still ending: {record.task_id}; try again later") from None

    async def end_without_result(
        self, record: TaskMetadata, exit_code: int = 1, reason: str = ""
    ) -> TaskMetadata:
        """Settle a run whose worker is gone; nothing changes when it has left a result."""
        repository = self._place.repository
        page = await repository.events(record.task_id, -1)
        end = partial(without_result, events=page.events, exit_code=exit_code, reason=reason)
        return await repository.update(record.task_id, record.run_id, end)

    async def _supervise(self, run: _SupervisedRun) -> None:
        record = run.record
        try:
            run.started.set_result(error := await self._launch(run.submission))
            if error is None:
                worker_exit = await self._place.runner.wait(record.run_id)
                with contextlib.suppress(TaskRunChangedError, TaskNotFoundError):
                    await self.end_without_result(record, worker_exit.exit_code, str(worker_exit))
        except Exception:  # the next start settles it again
            self._place.logger.exception("Task run could not be settled: %s", record.task_id)
        finally:
            self._runs.pop(record.run_id, None)
            run.finished.set()
            if not run.started.done():
                run.started.set_result(TasksClosedError("The Task was not started: the application is gone"))

    async def _launch(self, submission: Submission) -> Exception | None:
        record, place = submission.record, self._place
        try:
            await place.repository.claim(record)
        except Exception as error:  # noqa: BLE001 - raised again where the Task was submitted
            return error
        log_path = place.repository.log_path(record.task_id)
        launch = WorkerLaunch(record, submission.target, place.workspace_path, log_path, place.environment)
        try:
            await place.runner.start_worker(launch)
        except Exception as error:  # noqa: BLE001 - as above
            await self.end_without_result(record, 1, f"Task worker could not be started: {error}")
            return error
        return None

    async def _end(self, run: _SupervisedRun) -> None:
        record = run.record
        if await asyncio.shield(run.started) is not None:
            return
        with contextlib.suppress(TaskRunChangedError, TaskNotFoundError):
            await self._place.repository.update(record.task_id, record.run_id, request_cancel)
        await self._place.runner.cancel(record.run_id)
        async with asyncio.timeout(WORKER_EXIT_SECONDS):
            await run.finished.wait()
