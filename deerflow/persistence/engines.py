"""How connections of each backend are opened and what holds on every one of them."""

from __future__ import annotations

import sqlite3
import time
from typing import Any, Final

from sqlalchemy import event
from sqlalchemy.engine import Connection, Dialect, Engine, create_engine
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool, StaticPool

from deerflow.persistence.columns import dump_json, load_json
from deerflow.persistence.containment import json_contains
from deerflow.persistence.location import DatabaseLocation

BUSY_TIMEOUT_SECONDS: Final = 30
"""How long a SQLite connection waits for another writer of the same file."""

POSTGRES_CONNECTIONS: Final = 8
"""Connections, and threads that use them, for the host's own tables in one process."""

CONNECT_TIMEOUT_SECONDS: Final = 10
RECYCLE_SECONDS: Final = 1800
IDLE_SECONDS_BEFORE_PING: Final = 5.0

SQLITE_PRAGMAS: Final = (
    f"PRAGMA busy_timeout = {BUSY_TIMEOUT_SECONDS * 1000}",
    "PRAGMA foreign_keys = ON",
    # With WAL a power cut may cost the last commits but never the file; a crash of the process costs nothing.
    "PRAGMA synchronous = NORMAL",
)

_BEGIN: Final = "BEGIN IMMEDIATE"
_READING_KEYWORDS: Final = ("SELECT", "PRAGMA", "EXPLAIN", "VALUES")


def build_memory_engine() -> Engine:
    """Return an engine of one connection to a new SQLite database in memory; for one thread."""
    engine = create_engine(
        "sqlite://",
        poolclass=StaticPool,
        connect_args={"check_same_thread": False},
    )
    _listen_as_sqlite(engine)
    event.listen(engine, "begin", _begin_immediate)
    return engine


def build_sqlite_engine(location: DatabaseLocation, *, read_only: bool = False) -> Engine:
    """Return an engine of one connection to a SQLite file; for one thread.

    A writer's transactions begin with the write lock, so that none has to be upgraded in the middle;
    a reader sees what is committed, statement by statement.
    """
    engine = create_engine(
        location.url_with("pysqlite"),
        poolclass=StaticPool,
        connect_args={"check_same_thread": False, "timeout": BUSY_TIMEOUT_SECONDS},
    )
    _listen_as_sqlite(engine)
    if read_only:
        event.listen(engine, "connect", _refuse_writes)
    else:
        event.listen(engine, "begin", _begin_immediate)
    return engine


def build_postgres_engine(location: DatabaseLocation) -> Engine:
    """Return an engine for the host's threads on a PostgreSQL database."""
    engine = create_engine(
        location.url_with("psycopg"),
        connect_args=postgres_arguments(location),
        pool_size=POSTGRES_CONNECTIONS,
        max_overflow=0,
        pool_recycle=RECYCLE_SECONDS,
        json_serializer=dump_json,
        json_deserializer=load_json,
    )
    _ping_after_idling(engine)
    return engine


def build_migration_engine(location: DatabaseLocation) -> Engine:
    """Return an engine for reading and changing the schema.

    On SQLite references are off: a table that is rebuilt is dropped in between, and would take its
    referrers along. On PostgreSQL no statement is cut off: a big table takes its time.
    """
    if location.path is not None:
        engine = build_sqlite_engine(location)
        event.listen(engine, "connect", _ignore_references)
        return engine
    return create_engine(
        location.url_with("psycopg"),
        poolclass=NullPool,
        connect_args={"connect_timeout": CONNECT_TIMEOUT_SECONDS, "application_name": "deerflow"},
    )


def build_extension_engine(location: DatabaseLocation) -> AsyncEngine:
    """Return the asynchronous engine that extensions share, on the same database as the host's tables."""
    if location.backend == "postgres":
        return create_async_engine(
            location.url_with("psycopg"),
            connect_args=postgres_arguments(location),
            pool_pre_ping=True,
            pool_recycle=RECYCLE_SECONDS,
        )
    engine = create_async_engine(
        location.url_with("aiosqlite"), connect_args={"timeout": BUSY_TIMEOUT_SECONDS}
    )
    _listen_as_sqlite(engine.sync_engine)
    event.listen(engine.sync_engine, "before_cursor_execute", _begin_with_first_write)
    return engine


def _listen_as_sqlite(engine: Engine) -> None:
    event.listen(engine, "connect", _prepare_sqlite)


def _prepare_sqlite(dbapi_connection: Any, _: Any) -> None:
    dbapi_connection.isolation_level = None  # the driver shall begin nothing by itself
    cursor = dbapi_connection.cursor()
    for pragma in SQLITE_PRAGMAS:
        cursor.execute(pragma)
    cursor.close()
    dbapi_connection.create_function("json_contains", 2, json_contains, deterministic=True)


def _refuse_writes(dbapi_connection: Any, _: Any) -> None:
    dbapi_connection.execute("PRAGMA query_only = ON")


def _ignore_references(dbapi_connection: Any, _: Any) -> None:
    dbapi_connection.execute("PRAGMA foreign_keys = OFF")


def _begin_immediate(connection: Connection) -> None:
    # Past SQLAlchemy's own execution, which costs several times what the statement does.
    try:
        connection.connection.driver_connection.execute(_BEGIN)  # type: ignore[union-attr]
    except sqlite3.Error as error:  # with the class that its own execution gives it
        raise DBAPIError.instance(_BEGIN, None, error, sqlite3.Error) from error


def _begin_with_first_write(
    connection: Connection, cursor: Any, statement: str, parameters: Any, context: Any, executemany: bool
) -> None:
    """Take the write lock with the first statement that may write.

    Until then a session reads what is committed, as on PostgreSQL: it blocks nobody while it is only
    read from, and never has to upgrade a snapshot that others have outdated.
    """
    if statement.lstrip()[:8].upper().startswith(_READING_KEYWORDS):
        return
    if connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT":
        return
    if not connection.connection.driver_connection.in_transaction:  # type: ignore[union-attr]
        cursor.execute(_BEGIN)


def postgres_arguments(location: DatabaseLocation) -> dict[str, Any]:
    """Return what holds on every connection to a PostgreSQL database, for the driver's `connect`."""
    assert location.url is not None, "only a PostgreSQL database has these"
    timeout_ms = int(location.statement_timeout_seconds * 1000)
    # Ours first: of two settings of one thing the server takes the later, which is the operator's.
    options = f"-c statement_timeout={timeout_ms} -c idle_in_transaction_session_timeout={timeout_ms}"
    own_options = location.url.query.get("options", "")
    return {
        "connect_timeout": CONNECT_TIMEOUT_SECONDS,
        "application_name": "deerflow",
        # A peer that is gone without a word is found out by TCP, not by whoever waits for an answer.
        "keepalives_idle": 30,
        "tcp_user_timeout": timeout_ms + 10_000,
        "options": f"-c timezone=UTC {options} {own_options}",
    }


def _ping_after_idling(engine: Engine) -> None:
    """Test a connection before use where it has lain idle; a ping each time is a round trip each time."""

    @event.listens_for(engine, "checkin")
    def note_use(_: Any, record: Any) -> None:
        record.info["used_at"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def ping(dbapi_connection: Any, record: Any, _: Any) -> None:
        used_at = record.info.get("used_at")
        if used_at is not None and time.monotonic() - used_at > IDLE_SECONDS_BEFORE_PING:
            _ping(engine.dialect, dbapi_connection)


def _ping(dialect: Dialect, dbapi_connection: Any) -> None:
    try:
        dialect.do_ping(dbapi_connection)
    except Exception as error:  # whatever the driver says, the pool shall open a new one
        raise DisconnectionError from error
