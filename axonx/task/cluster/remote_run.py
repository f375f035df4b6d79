"""A run in the cluster, as its service sees it: frames become files and changes of its record."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from distributed import Event, Future, Queue
from distributed.client import FutureCancelledError

from axonx.task.cluster.files import FileReceiver, input_files, send_files
from axonx.task.cluster.frames import ALIVE_SECONDS, TAKEN, FrameKind, cancel_name
from axonx.task.metadata import TaskMetadata
from axonx.task.outcome import describe_error
from axonx.task.records import TaskRecords
from axonx.task.runner import WorkerExit, WorkerLaunch

_CANCELLED = WorkerExit(-15, "Task was cancelled before a worker of the cluster began it")
# Two signs of life may be late before anybody asks for the worker.
_SILENT_SECONDS = 3 * ALIVE_SECONDS
# What the worker says of the run; the rest of the record is the service's own.
_WORKERS_FIELDS = (
    "state",
    "pid",
    "process_started",
    "started_at",
    "finished_at",
    "error",
    "exit_code",
    "output_params",
    "steps",
)


class RemoteRun:
    """One run in the cluster. `exit` is set once, by whatever ends the run first."""

    def __init__(self, launch: WorkerLaunch, future: Future[Any], inbox: Queue) -> None:
        self.run_id = launch.record.run_id
        self.exit: asyncio.Future[WorkerExit] = asyncio.get_running_loop().create_future()
        self.address = ""
        self._task_id = launch.record.task_id
        self._records = TaskRecords(launch.workspace_path)
        self._log_path = launch.log_path
        self._future = future
        self._inbox = inbox
        self._files = FileReceiver(launch.workspace_path)
        self._last_heard = time.monotonic()
        self._sending: asyncio.Task[None] | None = None
        self._returned = asyncio.create_task(self._watch_future())

    @property
    def is_silent(self) -> bool:
        """Whether a worker has begun the run and has not been heard of for some seconds."""
        return bool(self.address) and time.monotonic() - self._last_heard > _SILENT_SECONDS

    def finish(self, worker_exit: WorkerExit) -> None:
        """Let the run be over; the first reason stays."""
        if not self.exit.done():
            self.exit.set_result(worker_exit)

    def lose_worker(self) -> None:
        """The worker is gone: nobody knows how far the Task came, and it is not begun again."""
        where = f" {self.address}" if self.address else ""
        self.finish(WorkerExit(1, f"Dask worker{where} was lost before the Task had a result"))

    async def take(self, kind: FrameKind, payload: Any) -> None:
        """Do what a frame of the worker says; what goes wrong here ends the run."""
        self._last_heard = time.monotonic()
        try:
            await self._take(kind, payload)
        except Exception as error:  # noqa: BLE001 - one run's full disk must not end the others
            reason = f"What the Dask worker sent could not be kept: {describe_error(error)}"
            self.finish(WorkerExit(1, reason))
            with contextlib.suppress(OSError):
                await self.ask_to_end()

    async def ask_to_end(self) -> None:
        """Ask a run that has begun to end; it has its grace. Raises OSError."""
        await Event(cancel_name(self.run_id), client=self._future.client).set()

    async def take_back(self) -> bool:
        """Whether no worker had begun the run; then none ever will. Raises OSError."""
        if self.address or not await self._inbox.get(batch=True):
            return False
        self.finish(_CANCELLED)
        return True

    async def release(self) -> None:
        """Forget the run in the cluster, and what did not come to its end here. Raises OSError."""
        for asyncio_task in filter(None, [self._sending, self._returned]):
            asyncio_task.cancel()
            await asyncio.gather(asyncio_task, return_exceptions=True)
        await asyncio.to_thread(self._files.discard)
        if self._future.client.status != "running":  # nobody is there to forget it
            return
        if not self._future.done():
            await self._future.cancel()
        await self._inbox.get(batch=True)
        self._inbox.close()
        event = Event(cancel_name(self.run_id), client=self._future.client)
        await event.set()  # or the scheduler keeps whoever waits for it
        await event.clear()

    async def _take(self, kind: FrameKind, payload: Any) -> None:
        match kind:
            case FrameKind.BEGUN:
                self.address = payload
                self._sending = asyncio.create_task(self._send_inputs())
            case FrameKind.EVENTS:
                await asyncio.to_thread(_append, self._records.layout.events_path(self._task_id), payload)
            case FrameKind.LOG:
                await asyncio.to_thread(_append, self._log_path, payload)
            case FrameKind.FILE | FrameKind.DATA | FrameKind.GONE | FrameKind.FILES_END:
                await asyncio.to_thread(self._files.take, kind, payload)
            case FrameKind.RECORD:
                told = TaskMetadata.model_validate_json(payload)
                await self._update(partial(_as_told, told=told, host=self.address))
            case FrameKind.EXIT:
                self.finish(WorkerExit(payload))

    async def _update(self, change: Callable[[TaskMetadata], TaskMetadata]) -> None:
        await asyncio.to_thread(self._records.update, self._task_id, self.run_id, change)

    async def _send_inputs(self) -> None:
        async def send(kind: FrameKind, payload: Any) -> None:
            await self._inbox.put([kind.value, payload])

        record = await asyncio.to_thread(self._records.read_run, self._task_id, self.run_id)
        try:
            paths = await asyncio.to_thread(input_files, self._records, record)
            await send_files(send, self._records.layout.workspace_path, paths)
        except Exception as error:  # noqa: BLE001 - whatever it is, the Task has not got its files
            self.finish(WorkerExit(1, f"Files could not be sent to the Dask worker: {describe_error(error)}"))
            with contextlib.suppress(OSError):
                await self.ask_to_end()

    async def _watch_future(self) -> None:
        try:
            answer = await self._future
        except FutureCancelledError as error:
            lost = error.reason == "scheduler-connection-lost"
            self.finish(connection_lost(error) if lost else WorkerExit(1, f"Dask dropped the run: {error}"))
        except Exception as error:  # noqa: BLE001 - Dask raises what happened in the worker, or to it
            self.finish(WorkerExit(1, f"Dask could not run the Task: {describe_error(error)}"))
        else:
            if answer == TAKEN:
                self.lose_worker()


def connection_lost(reason: object) -> WorkerExit:
    """How runs end of which nobody will hear again."""
    return WorkerExit(1, f"The connection to the Dask cluster was lost: {reason}")


def _as_told(current: TaskMetadata, *, told: TaskMetadata, host: str) -> TaskMetadata:
    return current.with_changes(host=host, **{name: getattr(told, name) for name in _WORKERS_FIELDS})


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)
