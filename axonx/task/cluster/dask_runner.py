"""Workers of Tasks in a Dask cluster."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from axonx import __version__
from axonx.components.registry import provider
from axonx.errors import ConfigurationError
from axonx.task.cluster.connection import ClusterPlace
from axonx.task.cluster.frames import WorkerOrder
from axonx.task.cluster.link import ClusterLink
from axonx.task.cluster.remote_run import RemoteRun
from axonx.task.metadata import TaskMetadata
from axonx.task.runner import BaseTaskRunner, WorkerExit, WorkerLaunch, checked_grace
from axonx.task.targets import import_paths

# On top of the grace: to kill a Task that does not end by itself, and to send what it has left.
_ENDING_SECONDS = 15
_ANSWER_SECONDS = 5


@provider("dask")
class DaskTaskRunner(BaseTaskRunner):
    """Each Task in a process of its own beside a worker of a Dask cluster, which needs no common disk.

    `scheduler_address` is that of a running cluster, such as `tcp://10.0.0.5:8786`. Without it a cluster
    of `n_workers` is made on this machine (`processes`: each worker is one), and closed with this
    component. As many Tasks run at once as the workers have threads; further ones wait.
    """

    def __init__(
        self,
        scheduler_address: str | None = None,
        n_workers: int | None = None,
        processes: bool = True,
        terminate_grace_seconds: float = 5,
        connect_timeout_seconds: float = 10,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if scheduler_address and n_workers is not None:
            raise ConfigurationError(
                f"{self.name}: n_workers is for a cluster of this machine's own; "
                "take it out, or scheduler_address"
            )
        if n_workers is not None and n_workers < 1:
            raise ConfigurationError(f"{self.name}: n_workers must be 1 or more, got {n_workers}")
        self.terminate_grace_seconds = checked_grace(terminate_grace_seconds)
        self._place = ClusterPlace(scheduler_address, n_workers, processes, connect_timeout_seconds)
        self._link: ClusterLink | None = None
        self._connecting = asyncio.Lock()
        self._runs: dict[str, RemoteRun] = {}

    @property
    def scheduler_address(self) -> str:
        """Where the scheduler is; empty while there is no connection."""
        return "" if self._link is None else self._link.address

    async def _start(self) -> None:
        await self._connected()

    async def _close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def start_worker(self, launch: WorkerLaunch) -> None:
        order = WorkerOrder(
            version=__version__,
            record=launch.record,
            target=launch.target,
            environment=await asyncio.to_thread(_with_import_paths, launch.environment),
            grace_seconds=self.terminate_grace_seconds,
        )
        link = await self._connected()
        self._runs[launch.record.run_id] = await link.submit(launch, order)

    async def wait(self, run_id: str) -> WorkerExit:
        run = self._runs[run_id]
        try:
            return await asyncio.shield(run.exit)
        finally:
            if run.exit.done():
                self._runs.pop(run_id, None)
                await self._answered(run.release)

    async def cancel(self, run_id: str) -> None:
        run = self._runs.get(run_id)
        if run is None or run.exit.done() or await self._answered(run.take_back):
            return
        await self._answered(run.ask_to_end)
        seconds = self.terminate_grace_seconds + _ENDING_SECONDS
        await asyncio.wait([run.exit], timeout=seconds)
        if not run.exit.done():
            self.logger.error("Dask worker %s does not say that it has ended its Task", run.address)
            run.finish(WorkerExit(1, f"Dask worker {run.address} did not answer within {seconds:g} s"))

    async def settle(self, record: TaskMetadata) -> bool:
        link, worker = self._link, record.worker
        elsewhere = record.source.kind == "submit" and (record.host or record.pid is None)
        if elsewhere and link is not None:  # its worker, or the one that begins it, is to end it
            await self._answered(partial(link.ask_to_end, record.run_id))
        return worker is None or not await asyncio.to_thread(worker.is_alive)

    async def _connected(self) -> ClusterLink:
        async with self._connecting:
            link = self._link
            if link is not None and link.is_open:
                return link
            self._link = None
            if link is not None:
                self.logger.warning("The connection to the Dask cluster was lost; connecting again")
                await link.close()
            self._link = await ClusterLink.open(self._place, self.logger)
            return self._link

    async def _answered(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await ask()
        except (OSError, TimeoutError) as error:
            self.logger.warning("The Dask scheduler does not answer: %r", error)
            return None


def _with_import_paths(environment: Mapping[str, str]) -> dict[str, str]:
    paths = [*filter(None, [environment.get("PYTHONPATH")]), *import_paths()]
    return dict(environment) | {"PYTHONPATH": os.pathsep.join(paths)}
