"""Where graphs keep their checkpoints: LangGraph's savers on the configured database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import Any, Final

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
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from deerflow.config import AppConfig
from deerflow.persistence.location import DatabaseLocation, locate_database
from deerflow.persistence.postgres_pool import make_tables, open_postgres_pool
from deerflow.persistence.sqlite_pruning import delete_all, keep_latest
from deerflow.persistence.sqlite_thread import SqliteThread, open_sqlite_thread

LIST_PAGE: Final = 50


class ThreadedSqliteSaver(SqliteSaver):
    """LangGraph's SQLite saver for asynchronous graphs: each call is one job in a thread of its own.

    LangGraph's asynchronous saver hops between threads for each statement, and one that is cancelled
    between two of them leaves a transaction open, and with it the file's write lock taken. A job here is
    finished whole or, where it had not begun when its caller was cancelled, never run.
    """

    def __init__(self, thread: SqliteThread, *, serde: JsonPlusSerializer | None = None) -> None:
        super().__init__(thread.connection, serde=serde)
        self._run = thread.run

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

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        prune_thread = {"keep_latest": keep_latest, "delete": delete_all}.get(strategy)
        if prune_thread is None:
            raise ValueError(f"unknown strategy {strategy!r}; allowed: 'keep_latest', 'delete'")
        for thread_id in thread_ids:
            with self.cursor(transaction=False) as cursor, self.conn:
                prune_thread(cursor, thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._run(partial(self.prune, thread_ids, strategy=strategy))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await self._run(partial(self.get_delta_channel_history, config=config, channels=channels))


@asynccontextmanager
async def open_checkpointer(
    config: AppConfig, *, allowed_types: Iterable[type] = ()
) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    """Give the saver of the configured database, its tables made; closed at the end of the block.

    Only LangGraph's and LangChain's own types, and `allowed_types`, are rebuilt from what is stored: bytes in
    a database shall not be able to import anything.
    """
    location = locate_database(config)
    serde = JsonPlusSerializer(allowed_msgpack_modules=tuple(allowed_types) or None)
    if location.backend == "memory":
        yield InMemorySaver(serde=serde)
    elif location.path is not None:
        async with open_sqlite_thread(location.path, name="checkpoints") as thread:
            sqlite_saver = ThreadedSqliteSaver(thread, serde=serde)
            await thread.run(sqlite_saver.setup)
            yield sqlite_saver
    else:
        async with _open_postgres_saver(location, serde) as postgres_saver:
            yield postgres_saver


@asynccontextmanager
async def _open_postgres_saver(
    location: DatabaseLocation, serde: JsonPlusSerializer
) -> AsyncIterator[AsyncPostgresSaver]:
    await make_tables(location, PostgresSaver)
    async with open_postgres_pool(location) as pool:
        saver = AsyncPostgresSaver(pool, serde=serde)
        # The lock guards a single connection; from a pool each call has its own, and runs need not queue.
        saver.lock = nullcontext()  # type: ignore[assignment]
        yield saver
