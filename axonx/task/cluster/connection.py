"""The connection to a Dask cluster: found by its address, or made and closed here; every wait is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass

from distributed import Client, LocalCluster

from axonx.task.cluster.errors import ClusterError

_CLOSE_SECONDS = 10


@dataclass(frozen=True)
class ClusterPlace:
    """Where the cluster is: at `scheduler_address`, or here with `n_workers` (as many as Dask thinks fit)."""

    scheduler_address: str | None
    n_workers: int | None
    processes: bool
    connect_timeout_seconds: float


@contextlib.asynccontextmanager
async def open_client(place: ClusterPlace, logger: logging.Logger) -> AsyncIterator[Client]:
    """A client of the cluster. Raises ClusterError."""
    async with contextlib.AsyncExitStack() as stack:
        address: str | LocalCluster | None = place.scheduler_address
        if address is None:
            address = await stack.enter_async_context(_local_cluster(place, logger))
        seconds = place.connect_timeout_seconds
        client = Client(address, asynchronous=True, set_as_default=False, timeout=seconds, name="axonx")
        stack.push_async_callback(_close_within_bound, client, logger)
        try:
            await client
        except (OSError, TimeoutError, ValueError) as error:
            raise ClusterError(
                f"No Dask scheduler answers at {address} within {seconds:g} s ({error}); start it, or "
                "correct scheduler_address of the task_runner"
            ) from error
        yield client


@contextlib.asynccontextmanager
async def _local_cluster(place: ClusterPlace, logger: logging.Logger) -> AsyncIterator[LocalCluster]:
    cluster = LocalCluster(
        n_workers=place.n_workers,
        threads_per_worker=1,
        processes=place.processes,
        dashboard_address="127.0.0.1:0",  # any port: the usual one may be taken
        asynchronous=True,
    )
    try:
        yield await cluster
    finally:
        await _close_within_bound(cluster, logger)


async def _close_within_bound(closing: Client | LocalCluster, logger: logging.Logger) -> None:
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await closing.close()  # type: ignore[misc]  # both are asynchronous, so it can be awaited
    except TimeoutError:
        logger.error("%s does not close within %d s", type(closing).__name__, _CLOSE_SECONDS)
