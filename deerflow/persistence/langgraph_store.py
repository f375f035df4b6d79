"""LangGraph's store of items under namespaces, on the configured database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial

from langgraph.store.base import BaseStore, Op, Result
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import PostgresStore
from langgraph.store.postgres.aio import AsyncPostgresStore
from langgraph.store.sqlite import SqliteStore

from deerflow.config import AppConfig
from deerflow.persistence.location import DatabaseLocation, locate_database
from deerflow.persistence.postgres_pool import make_tables, open_postgres_pool
from deerflow.persistence.sqlite_thread import SqliteThread, open_sqlite_thread


class ThreadedSqliteStore(SqliteStore):
    """LangGraph's SQLite store for asynchronous callers: each batch is one job in a thread of its own."""

    def __init__(self, thread: SqliteThread) -> None:
        super().__init__(thread.connection)
        self._run = thread.run

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await self._run(partial(self.batch, list(ops)))


@asynccontextmanager
async def open_store(config: AppConfig) -> AsyncIterator[BaseStore]:
    """Give the store of the configured database, its tables made; closed at the end of the block."""
    location = locate_database(config)
    if location.backend == "memory":
        yield InMemoryStore()
    elif location.path is not None:
        async with open_sqlite_thread(location.path, autocommit=True, name="store") as thread:
            sqlite_store = ThreadedSqliteStore(thread)
            await thread.run(sqlite_store.setup)
            yield sqlite_store
    else:
        async with _open_postgres_store(location) as postgres_store:
            yield postgres_store


@asynccontextmanager
async def _open_postgres_store(location: DatabaseLocation) -> AsyncIterator[AsyncPostgresStore]:
    await make_tables(location, PostgresStore)
    async with open_postgres_pool(location) as pool:
        store = AsyncPostgresStore(pool)
        try:
            yield store
        finally:
            # LangGraph ends it only when the store is collected, which may be after the loop.
            batches = store._task
            if batches is not None:
                batches.cancel()
                await asyncio.wait({batches})
