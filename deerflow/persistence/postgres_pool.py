"""Connections to PostgreSQL for LangGraph's own tables."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.store.postgres import PostgresStore
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg.types.json import set_json_dumps
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from deerflow.persistence.columns import dump_json
from deerflow.persistence.engines import (
    CONNECT_TIMEOUT_SECONDS,
    IDLE_SECONDS_BEFORE_PING,
    RECYCLE_SECONDS,
    postgres_arguments,
)
from deerflow.persistence.errors import DatabaseUnavailableError
from deerflow.persistence.location import DatabaseLocation
from deerflow.persistence.locks import schema_lock

POOL_SIZE: Final = 8

Pool = AsyncConnectionPool[AsyncConnection[dict[str, Any]]]


@asynccontextmanager
async def open_postgres_pool(location: DatabaseLocation) -> AsyncIterator[Pool]:
    """Give a pool for LangGraph's classes. Raises `DatabaseUnavailableError` where nobody answers."""
    uses = _Uses()
    arguments = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    pool: Pool = AsyncConnectionPool(
        location.libpq_url,
        kwargs={**postgres_arguments(location), **arguments},
        min_size=1,
        max_size=POOL_SIZE,
        max_lifetime=RECYCLE_SECONDS,
        configure=_store_any_text,
        reset=uses.note,
        check=uses.check,
        open=False,
    )
    try:
        await pool.open(wait=True, timeout=CONNECT_TIMEOUT_SECONDS)
    except PoolTimeout as error:
        raise DatabaseUnavailableError(f"database {location} does not answer: {error}") from error
    async with pool:
        yield pool


async def make_tables(location: DatabaseLocation, kind: type[PostgresSaver] | type[PostgresStore]) -> None:
    """Make or upgrade the tables of LangGraph's saver or store; of several processes, one at a time."""
    await asyncio.to_thread(_make_tables, location, kind)


def _make_tables(location: DatabaseLocation, kind: type[PostgresSaver] | type[PostgresStore]) -> None:
    with schema_lock(location), kind.from_conn_string(location.libpq_url) as saver_or_store:
        saver_or_store.setup()


async def _store_any_text(connection: AsyncConnection[Any]) -> None:
    # PostgreSQL refuses NUL and lone surrogates in the JSON that LangGraph writes plain values into.
    set_json_dumps(dump_json, connection)


class _Uses:
    """When connections were last used: those that have lain idle are tested before they are given out."""

    def __init__(self) -> None:
        self._used_at: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()

    async def note(self, connection: Any) -> None:
        self._used_at[connection] = time.monotonic()

    async def check(self, connection: Any) -> None:
        if time.monotonic() - self._used_at.get(connection, 0.0) > IDLE_SECONDS_BEFORE_PING:
            await AsyncConnectionPool.check_connection(connection)
