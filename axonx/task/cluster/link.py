"""One connection to a Dask cluster, and the runs that go on through it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, Self

from distributed import Client, Event, Future, Queue

from axonx.task.cluster.connection import ClusterPlace, open_client
from axonx.task.cluster.errors import ClusterError
from axonx.task.cluster.frames import QUEUE_FRAMES, FrameKind, WorkerOrder, cancel_name, inbox_name
from axonx.task.cluster.remote import run_in_worker
from axonx.task.cluster.remote_run import RemoteRun, connection_lost
from axonx.task.identity import new_run_id
from axonx.task.runner import WorkerLaunch

_LOOK_SECONDS = 1.0
_ANSWER_SECONDS = 5.0


class ClusterLink:
    """Open from `open` until `close`, or until the scheduler is gone, which ends its runs."""

    def __init__(self, place: ClusterPlace, client: Client, outbox: Queue, logger: logging.Logger) -> None:
        self.address: str = (client.scheduler and client.scheduler.address) or ""
        self._place = place
        self._client = client
        self._outbox = outbox
        self._logger = logger
        self._stack = contextlib.AsyncExitStack()
        self._runs: dict[str, RemoteRun] = {}
        self._lost = False

    @classmethod
    async def open(cls, place: ClusterPlace, logger: logging.Logger) -> Self:
        """Connect, and begin to listen. Raises ClusterError."""
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(open_client(place, logger))
            outbox = await Queue(f"axonx-outbox-{new_run_id()}", client=client, maxsize=QUEUE_FRAMES)
            link = cls(place, client, outbox, logger)
            for loop in (link._read_frames(), link._look_for_workers()):
                stack.push_async_callback(_stop, asyncio.create_task(loop))
            link._stack = stack.pop_all()
            return link

    @property
    def is_open(self) -> bool:
        return not self._lost and self._client.status == "running"

    async def submit(self, launch: WorkerLaunch, order: WorkerOrder) -> RemoteRun:
        """Put a run into the cluster, where it waits for a worker. Raises ClusterError."""
        run_id = launch.record.run_id
        try:
            async with asyncio.timeout(self._place.connect_timeout_seconds):
                inbox = await Queue(inbox_name(run_id), client=self._client, maxsize=QUEUE_FRAMES)
                await inbox.put(order.model_dump_json().encode())
        except (OSError, TimeoutError) as error:
            raise ClusterError(f"The Dask scheduler at {self.address} does not answer: {error!r}") from error
        future: Future[Any] = self._client.submit(
            run_in_worker, run_id, self._outbox.name, key=f"axonx-{run_id}", pure=False, retries=0
        )
        run = self._runs[run_id] = RemoteRun(launch, future, inbox)
        run.exit.add_done_callback(lambda _: self._runs.pop(run_id, None))
        return run

    async def ask_to_end(self, run_id: str) -> None:
        """Ask a run of another service to end, where its worker listens to this cluster. Raises OSError."""
        await Event(cancel_name(run_id), client=self._client).set()

    async def close(self) -> None:
        """End the connection, and what was made for it."""
        self._lose("it was closed")
        await self._stack.aclose()

    async def _read_frames(self) -> None:
        try:
            while True:
                for frame in [await self._outbox.get(), *await self._outbox.get(batch=True)]:
                    await self._take(*frame)
        except Exception as error:  # noqa: BLE001 - without frames nobody would hear of any run again
            self._lose(repr(error))

    async def _take(self, run_id: str, kind: str, payload: Any) -> None:
        run = self._runs.get(run_id)
        if run is not None:
            await run.take(FrameKind(kind), payload)
        elif kind == FrameKind.ALIVE:  # it was given up here, and has not heard of that
            await self.ask_to_end(run_id)

    async def _look_for_workers(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            silent = [run for run in self._runs.values() if run.is_silent]
            if not silent:
                continue
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    known = await self._client.nthreads([run.address for run in silent])
            except (OSError, TimeoutError) as error:
                self._logger.warning("The Dask scheduler at %s does not answer: %r", self.address, error)
                continue
            for run in silent:
                if run.address not in known:
                    run.lose_worker()

    def _lose(self, reason: str) -> None:
        self._lost = True
        for run in list(self._runs.values()):
            run.finish(connection_lost(reason))


async def _stop(asyncio_task: asyncio.Task[None]) -> None:
    asyncio_task.cancel()
    await asyncio.gather(asyncio_task, return_exceptions=True)
