"""What runs inside a Dask worker: one Task in a process of its own, in a workspace that lasts as long as it.

The worker's files are the buffer: the Task never waits for the network, and frames never pile up.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed import Client, Event, Queue, get_client, get_worker

from axonx import __version__
from axonx.task.cluster.errors import ClusterError
from axonx.task.cluster.files import FileReceiver, FileState, regular_files, send_files
from axonx.task.cluster.frames import (
    ALIVE_SECONDS,
    CHUNK_BYTES,
    DONE,
    ORPHANED_SECONDS,
    QUEUE_FRAMES,
    TAKEN,
    FrameKind,
    WorkerOrder,
    cancel_name,
    inbox_name,
)
from axonx.task.metadata import TaskMetadata, TaskState
from axonx.task.process import this_process
from axonx.task.records import TaskRecords
from axonx.task.runner import LocalTaskRunner, WorkerLaunch

_LOOK_SECONDS = 0.1
# One wait for the cancellation, so that the scheduler forgets a waiter whose run has ended.
_CANCEL_WAIT_SECONDS = 5.0
_CANCELLED_CODE = -15


async def run_in_worker(run_id: str, outbox_name: str) -> str:
    """Run the Task whose order waits in the queue of `run_id`; DONE, or TAKEN when it has been taken.

    Dask gives a call to another worker when one is lost. The order is taken once, so the Task is not
    begun twice. Raises ClusterError, OSError, TimeoutError when the service has gone.
    """
    client = await get_client()
    async with _queue(client, inbox_name(run_id)) as inbox, _queue(client, outbox_name) as outbox:
        orders = await inbox.get(batch=True)
        if not orders:
            return TAKEN
        order = WorkerOrder.model_validate_json(orders[0])
        link = _Link(run_id, inbox, outbox)
        await link.send(FrameKind.BEGUN, get_worker().address)
        if order.version != __version__:
            raise ClusterError(
                f"the service has AxonX {order.version}, the Dask worker {__version__}; "
                "install the same version on both"
            )
        async with _awaited_cancellation(client, run_id) as cancelled:
            await _run_order(order, link, cancelled)
    return DONE


@dataclass
class _Link:
    run_id: str
    inbox: Queue
    outbox: Queue
    last_sent: float = 0.0

    async def send(self, kind: FrameKind, payload: Any) -> None:
        await self.outbox.put([self.run_id, kind.value, payload], timeout=ORPHANED_SECONDS)
        self.last_sent = time.monotonic()

    async def stay_alive(self) -> None:
        if time.monotonic() - self.last_sent > ALIVE_SECONDS:
            await self.send(FrameKind.ALIVE, None)

    async def receive(self) -> tuple[FrameKind, Any]:
        kind, payload = await self.inbox.get(timeout=ORPHANED_SECONDS)
        return FrameKind(kind), payload


@contextlib.asynccontextmanager
async def _queue(client: Client, name: str) -> AsyncIterator[Queue]:
    queue = await Queue(name, client=client, maxsize=QUEUE_FRAMES)
    try:
        yield queue
    finally:
        queue.close()


@contextlib.asynccontextmanager
async def _awaited_cancellation(client: Client, run_id: str) -> AsyncIterator[asyncio.Task[None]]:
    async def wait() -> None:
        event = Event(cancel_name(run_id), client=client)
        while not await event.wait(timeout=_CANCEL_WAIT_SECONDS):
            pass

    asyncio_task = asyncio.create_task(wait())
    try:
        yield asyncio_task
    finally:
        asyncio_task.cancel()
        await asyncio.gather(asyncio_task, return_exceptions=True)


async def _run_order(order: WorkerOrder, link: _Link, cancelled: asyncio.Task[None]) -> None:
    with tempfile.TemporaryDirectory(
        prefix="axonx-", dir=get_worker().local_directory, ignore_cleanup_errors=True
    ) as directory:
        records = TaskRecords(Path(directory))
        # The Dask worker supervises this copy of the run: its process ends when the Dask worker does.
        record = order.record.with_changes(supervisor=await asyncio.to_thread(this_process))
        await asyncio.to_thread(records.claim, record)
        inputs = await _receive_files(records.layout.workspace_path, link, cancelled)
        outflow = _Outflow(records, record, link, inputs)
        code = _CANCELLED_CODE
        if not cancelled.done():
            code = await _run_process(order, outflow, cancelled)
        await outflow.finish()
        await link.send(FrameKind.EXIT, code)


async def _receive_files(workspace: Path, link: _Link, cancelled: asyncio.Task[None]) -> dict[str, FileState]:
    receiver = FileReceiver(workspace)
    try:
        kind = None
        while kind != FrameKind.FILES_END and not cancelled.done():
            kind, payload = await link.receive()
            await asyncio.to_thread(receiver.take, kind, payload)
    finally:
        await asyncio.to_thread(receiver.discard)
    return receiver.received


async def _run_process(order: WorkerOrder, outflow: _Outflow, cancelled: asyncio.Task[None]) -> int:
    record, layout = outflow.record, outflow.records.layout
    runner = LocalTaskRunner(terminate_grace_seconds=order.grace_seconds)
    log_path = layout.log_path(record.task_id)
    await runner.start_worker(
        WorkerLaunch(record, order.target, layout.workspace_path, log_path, order.environment)
    )
    exited = asyncio.create_task(runner.wait(record.run_id))
    ending: asyncio.Task[None] | None = None
    try:
        while not exited.done():
            if cancelled.done() and ending is None:
                ending = asyncio.create_task(runner.cancel(record.run_id))
            if not await outflow.forward():
                await asyncio.wait([exited], timeout=_LOOK_SECONDS)
        return exited.result().return_code
    finally:  # the service or the scheduler has gone, or this worker closes
        if not exited.done():
            await runner.cancel(record.run_id)
        await asyncio.wait([exited, *filter(None, [ending])])


class _Outflow:
    """What a run writes, sent on in the order of each file."""

    def __init__(
        self, records: TaskRecords, record: TaskMetadata, link: _Link, inputs: dict[str, FileState]
    ) -> None:
        self.records = records
        self.record = record
        self._link = link
        self._inputs = inputs
        self._offsets = {FrameKind.EVENTS: 0, FrameKind.LOG: 0}

    async def forward(self) -> bool:
        """Send what is new since the last time, a frame of each kind at most; whether there was any."""
        if self.record.state == TaskState.QUEUED:
            current = await self._current()
            if current.state == TaskState.RUNNING:
                self.record = current
                await self._link.send(FrameKind.RECORD, current.model_dump_json().encode())
        layout, task_id = self.records.layout, self.record.task_id
        events = await self._forward_file(FrameKind.EVENTS, layout.events_path(task_id))
        log = await self._forward_file(FrameKind.LOG, layout.log_path(task_id))
        await self._link.stay_alive()
        return events or log

    async def finish(self) -> None:
        """Send what is left, the files, and at last the record."""
        while await self.forward():
            pass
        workspace = self.records.layout.workspace_path
        task_dir = self.records.layout.task_dir(self.record.task_id)
        paths = await asyncio.to_thread(list, regular_files(task_dir))
        there = {path.relative_to(workspace).as_posix(): path for path in paths}
        own = task_dir.relative_to(workspace).as_posix() + "/"
        for name in self._inputs:
            if name.startswith(own) and name not in there:
                await self._link.send(FrameKind.GONE, name)
        new = [path for name, path in there.items() if self._is_new(name, path)]
        await send_files(self._link.send, workspace, new)
        await self._link.send(FrameKind.RECORD, (await self._current()).model_dump_json().encode())

    def _is_new(self, name: str, path: Path) -> bool:
        status = path.stat()
        return self._inputs.get(name) != (status.st_size, status.st_mtime_ns)

    async def _current(self) -> TaskMetadata:
        return await asyncio.to_thread(self.records.read_run, self.record.task_id, self.record.run_id)

    async def _forward_file(self, kind: FrameKind, path: Path) -> bool:
        data = await asyncio.to_thread(_read, path, self._offsets[kind])
        if data:
            await self._link.send(kind, data)
            self._offsets[kind] += len(data)
        return bool(data)


def _read(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(CHUNK_BYTES)
    except FileNotFoundError:
        return b""
