"""Locks between processes that open one database at the same moment.

Both wait by asking again: a connection that waits inside PostgreSQL holds a snapshot, and LangGraph's
`CREATE INDEX CONCURRENTLY` waits for every snapshot, so the two would wait for each other.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import psycopg
from filelock import FileLock, Timeout

from deerflow.persistence.errors import DatabaseUnavailableError
from deerflow.persistence.location import DatabaseLocation

LOCK_TIMEOUT_SECONDS: Final = 120.0
POLL_SECONDS: Final = 0.05
_POSTGRES_LOCK: Final = 0x6465_6572_666C_6F77  # any number, the same in every process


@contextmanager
def schema_lock(location: DatabaseLocation) -> Iterator[None]:
    """Hold the right to change a database's tables. Raises `DatabaseUnavailableError` after two minutes."""
    if location.path is not None:
        with _file_lock(location.path):
            yield
    else:
        with _advisory_lock(location):
            yield


def prepare_sqlite_file(path: Path) -> None:
    """Make the folder and the file where they are missing, and let readers and a writer work side by side."""
    if journal_mode(path) == "wal":
        return
    # Conversations are the owner's alone, unless somebody made the folder for others before.
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The change of mode needs the file alone, and does not wait for others as other statements do.
    with _file_lock(path), closing(sqlite3.connect(path, timeout=LOCK_TIMEOUT_SECONDS)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")


def journal_mode(path: Path) -> str | None:
    """Return how a SQLite file keeps its journal; `None` where there is no file."""
    if not path.exists():
        return None
    with closing(sqlite3.connect(path, timeout=LOCK_TIMEOUT_SECONDS)) as connection:
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


@contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    lock = FileLock(f"{path}.lock", timeout=LOCK_TIMEOUT_SECONDS, thread_local=False)
    try:
        lock.acquire(poll_interval=POLL_SECONDS)
    except Timeout as error:
        raise DatabaseUnavailableError(
            f"database {path}: another process has held {lock.lock_file} for {LOCK_TIMEOUT_SECONDS:g} s"
        ) from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _advisory_lock(location: DatabaseLocation) -> Iterator[None]:
    try:
        connection = psycopg.connect(location.libpq_url, autocommit=True)
    except psycopg.OperationalError as error:
        raise DatabaseUnavailableError(f"database {location} does not answer: {error}") from error
    with connection:  # closing it releases the lock
        deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
        while not _try_lock(connection):
            if time.monotonic() > deadline:
                raise DatabaseUnavailableError(
                    f"database {location}: another process has changed its tables for "
                    f"{LOCK_TIMEOUT_SECONDS:g} s"
                )
            time.sleep(POLL_SECONDS)
        yield


def _try_lock(connection: psycopg.Connection[tuple[bool]]) -> bool:
    row = connection.execute("SELECT pg_try_advisory_lock(%s)", (_POSTGRES_LOCK,)).fetchone()
    return row is not None and row[0]
