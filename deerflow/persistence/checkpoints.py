"""Where graphs keep their checkpoints: LangGraph's savers on the configured database."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from deerflow.config import AppConfig
from deerflow.persistence.engines import BUSY_TIMEOUT_SECONDS, SQLITE_PRAGMAS
from deerflow.persistence.location import DatabaseLocation, locate_database

LIST_PAGE: Final = 50
POOL_SIZE: Final = 8

T = TypeVar("T")


class ThreadedSqliteSaver(SqliteSaver):
    """LangGraph's SQLite saver for asynchronous graphs: each call is one job in a thread of its own.

    LangGraph's asynchronous saver hops between threads for each statement, and one that is cancelled
    between two of them leaves a transaction open, with it the file's write lock. A job here is finished
    whole or, where it had not begun when its caller was cancelled, never run.
    """

    def __init__(
        self, conn: sqlite3.Connection, thread: ThreadPoolExecutor, serde: JsonPlusSerializer
    ) -> None:
        super().__init__(conn, serde=serde)
        self._thread = thread

    async def _run(self, job: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._thread.submit(job))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._run(partial(self.get_tuple, config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        remaining = limit
        while remaining is None or remaining > 0:
            size = LIST_PAGE if remaining is None else min(LIST_PAGE, remaining)
            page = await self._run(partial(self._page, config, filter, before, size))
            for item in page:
                yield item
            if len(page) < size:
                return
            before = page[-1].config
            remaining = None if remaining is None else remaining - size

    def _page(
        self,
        config: RunnableConfig | None,
        metadata: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int,
    ) -> Sequence[CheckpointTuple]:
        return tuple(self.list(config, filter=metadata, before=before, limit=limit))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await self._run(partial(self.put, config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await self._run(partial(self.put_writes, config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        await self._run(partial(self.delete_thread, thread_id))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await self._run(partial(self.get_delta_channel_history, config=config, channels=channels))


@asynccontextmanager
async def open_checkpointer(
    config: AppConfig, *, allowed_types: Iterable[type] = ()
) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    """Give the saver of the configured database, its tables made; closed at the end of the block.

    Only LangGraph's and LangChain's own types, and `allowed_types`, are rebuilt from what is stored: text in
    a database shall not be able to import anything.
    """
    location = locate_database(config)
    serde = JsonPlusSerializer(allowed_msgpack_modules=tuple(allowed_types) or None)
    if location.backend == "memory":
        yield InMemorySaver(serde=serde)
    elif location.backend == "sqlite":
        async with _open_sqlite_saver(location, serde) as sqlite_saver:
            yield sqlite_saver
    else:
        async with _open_postgres_saver(location, serde) as postgres_saver:
            yield postgres_saver


@asynccontextmanager
async def _open_sqlite_saver(
    location: DatabaseLocation, serde: JsonPlusSerializer
) -> AsyncIterator[ThreadedSqliteSaver]:
    thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
    try:
        connection = await asyncio.wrap_future(thread.submit(_connect, location))
        saver = ThreadedSqliteSaver(connection, thread, serde)
        await asyncio.wrap_future(thread.submit(saver.setup))
        try:
            yield saver
        finally:
            thread.submit(connection.close)
    finally:
        await asyncio.to_thread(thread.shutdown)


def _connect(location: DatabaseLocation) -> sqlite3.Connection:
    assert location.path is not None
    location.path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(location.path, timeout=BUSY_TIMEOUT_SECONDS, check_same_thread=False)
    for pragma in SQLITE_PRAGMAS:
        connection.execute(pragma)
    return connection


@asynccontextmanager
async def _open_postgres_saver(
    location: DatabaseLocation, serde: JsonPlusSerializer
) -> AsyncIterator[AsyncPostgresSaver]:
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        location.libpq_url,
        min_size=1,
        max_size=POOL_SIZE,
        open=False,
        check=AsyncConnectionPool.check_connection,
        kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
    )
    async with pool:
        saver = AsyncPostgresSaver(pool, serde=serde)
        await saver.setup()
        yield saver


async def delete_checkpoints(saver: BaseCheckpointSaver[Any], thread_id: str) -> None:
    """Remove every checkpoint of a thread."""
    await saver.adelete_thread(thread_id)
