"""Where graphs keep their checkpoints: LangGraph's savers on the configured database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, nullcontext

from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from deerflow.config import AppConfig
from deerflow.persistence.checkpoint_fence import FencedSaver
from deerflow.persistence.location import DatabaseLocation, locate_database
from deerflow.persistence.memory_saver import HostMemorySaver
from deerflow.persistence.postgres_pool import make_tables, open_postgres_pool
from deerflow.persistence.postgres_saver import HostPostgresSaver
from deerflow.persistence.sqlite_saver import HostSqliteSaver
from deerflow.persistence.sqlite_thread import open_sqlite_thread


@asynccontextmanager
async def open_checkpointer(
    config: AppConfig, *, allowed_types: Iterable[type] = ()
) -> AsyncIterator[FencedSaver]:
    """Give the saver of the configured database, its tables made; closed at the end of the block.

    Only LangGraph's and LangChain's own types, and `allowed_types`, are rebuilt from what is stored: bytes in
    a database shall not be able to import anything.
    """
    location = locate_database(config)
    serde = JsonPlusSerializer(allowed_msgpack_modules=tuple(allowed_types) or None)
    if location.backend == "memory":
        yield HostMemorySaver(serde=serde)
    elif location.path is not None:
        async with open_sqlite_thread(location.path, name="checkpoints") as thread:
            sqlite_saver = HostSqliteSaver(thread, serde=serde)
            await thread.run(sqlite_saver.setup)
            yield sqlite_saver
    else:
        async with _open_postgres_saver(location, serde) as postgres_saver:
            yield postgres_saver


@asynccontextmanager
async def _open_postgres_saver(
    location: DatabaseLocation, serde: JsonPlusSerializer
) -> AsyncIterator[HostPostgresSaver]:
    await make_tables(location, PostgresSaver)
    async with open_postgres_pool(location) as pool:
        saver = HostPostgresSaver(pool, serde=serde)
        # The lock guards a single connection; from a pool each call has its own, and runs need not queue.
        saver.lock = nullcontext()  # type: ignore[assignment]
        yield saver
