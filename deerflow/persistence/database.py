"""One database, opened: the stores that the run path uses and what extensions get of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from deerflow_extension_api import RunEvidenceReader
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker

from deerflow.cancellation import uninterrupted
from deerflow.config import AppConfig
from deerflow.persistence.engines import (
    POSTGRES_CONNECTIONS,
    build_extension_engine,
    build_memory_engine,
    build_postgres_engine,
    build_sqlite_engine,
)
from deerflow.persistence.events import SqlRunEventStore
from deerflow.persistence.evidence import DatabaseRunEvidenceReader
from deerflow.persistence.hosts import SqlHostStore, SqliteHostStore
from deerflow.persistence.location import DatabaseLocation, locate_database
from deerflow.persistence.runs import SqlRunStore
from deerflow.persistence.schema import create_schema, prepare_schema
from deerflow.persistence.thread_ttls import SqlThreadTtlStore
from deerflow.persistence.threads import SqlThreadStore
from deerflow.persistence.transactions import Lane, Transactions
from deerflow.runs.stores import HostStore, RunStores


@dataclass(frozen=True)
class Database:
    """An open database.

    `transactions` runs further statements of the host. `engine` and `session_factory` are what extensions
    share; both are `None` with `memory`, where nobody else can be let in.
    """

    location: DatabaseLocation
    transactions: Transactions
    stores: RunStores
    engine: AsyncEngine | None = None
    session_factory: async_sessionmaker[AsyncSession] | None = None

    @property
    def evidence(self) -> RunEvidenceReader:
        """What extensions may read of runs."""
        return DatabaseRunEvidenceReader(self.transactions)


@asynccontextmanager
async def open_database(config: AppConfig) -> AsyncIterator[Database]:
    """Give the configured database, its schema at this release; closed at the end of the block.

    A SQLite file and its folder are made where they are missing. Raises `SchemaError` where the tables do
    not fit this release, `DatabaseUnavailableError` where the database does not answer.
    """
    location = locate_database(config)
    if location.backend != "memory":
        # Where the caller is cancelled, the thread goes on and keeps the schema's lock until it is done.
        await asyncio.to_thread(prepare_schema, location)
    # Nothing connects yet, but drivers are imported and the working directory is asked for.
    transactions, engine = await asyncio.to_thread(_build, location)
    try:
        if location.backend == "memory":
            await transactions.write(create_schema)
        yield _database(location, transactions, engine)
    finally:
        await uninterrupted(_close(transactions, engine), name=f"closing database {location}")


def _build(location: DatabaseLocation) -> tuple[Transactions, AsyncEngine | None]:
    engine = None if location.backend == "memory" else build_extension_engine(location)
    return build_transactions(location), engine


def build_stores(location: DatabaseLocation, transactions: Transactions) -> RunStores:
    """Return the stores of one database."""
    return RunStores(
        threads=SqlThreadStore(transactions),
        ttls=SqlThreadTtlStore(transactions),
        runs=SqlRunStore(transactions),
        events=SqlRunEventStore(transactions),
        hosts=_host_store(location, transactions),
    )


def _host_store(location: DatabaseLocation, transactions: Transactions) -> HostStore | None:
    if location.path is not None:
        return SqliteHostStore(transactions, location.path)
    return SqlHostStore(transactions) if location.backend == "postgres" else None


def _database(location: DatabaseLocation, transactions: Transactions, engine: AsyncEngine | None) -> Database:
    sessions = None if engine is None else async_sessionmaker(engine, expire_on_commit=False)
    return Database(location, transactions, build_stores(location, transactions), engine, sessions)


def build_transactions(location: DatabaseLocation) -> Transactions:
    """Return the transactions of a database whose schema is prepared; the first of them connects."""
    name = str(location)
    if location.backend == "memory":
        return Transactions(name, writing=Lane.of(build_memory_engine()))
    if location.backend == "sqlite":
        return Transactions(
            name,
            writing=Lane.of(build_sqlite_engine(location)),
            reading=Lane.of(build_sqlite_engine(location, read_only=True)),
        )
    writing = Lane.of(build_postgres_engine(location), size=POSTGRES_CONNECTIONS)
    # Outside of a transaction a read is one round trip instead of three.
    reading = Lane(writing.engine.execution_options(isolation_level="AUTOCOMMIT"), writing.threads)
    return Transactions(name, writing=writing, reading=reading)


async def _close(transactions: Transactions, engine: AsyncEngine | None) -> None:
    if engine is not None:
        await engine.dispose()
    await transactions.close()
