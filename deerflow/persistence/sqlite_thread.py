"""One SQLite connection for a library that blocks, and the one thread that uses it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from deerflow.cancellation import uninterrupted
from deerflow.persistence.engines import BUSY_TIMEOUT_SECONDS, SQLITE_PRAGMAS
from deerflow.persistence.errors import DatabaseUnavailableError
from deerflow.persistence.job_threads import JobRefusedError, JobThreads
from deerflow.persistence.locks import prepare_sqlite_file

T = TypeVar("T")


class SqliteThread:
    """Runs jobs on `connection`, one after another; each is finished, or not begun where its caller left."""

    def __init__(self, path: Path, connection: sqlite3.Connection, thread: JobThreads) -> None:
        self.connection = connection
        self._path = path
        self._thread = thread

    async def run(self, job: Callable[[], T]) -> T:
        """Return what `job` returns. Raises `DatabaseUnavailableError` where it is closed or locked."""
        try:
            return await self._thread.run(job)
        except JobRefusedError as error:
            raise DatabaseUnavailableError(f"database {self._path}: {error}") from error
        except sqlite3.OperationalError as error:
            raise DatabaseUnavailableError(f"database {self._path} does not answer: {error}") from error


class _ImmediateConnection(sqlite3.Connection):
    """Begins with the write lock where a library says BEGIN: no transaction is upgraded in the middle."""

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        return super().execute("BEGIN IMMEDIATE" if sql == "BEGIN" else sql, *parameters)


@asynccontextmanager
async def open_sqlite_thread(
    path: Path, *, autocommit: bool = False, name: str
) -> AsyncIterator[SqliteThread]:
    """Give a thread with a connection to a file; both end with the block, after what runs."""
    thread = JobThreads(name=name)
    try:
        connection = await thread.run(partial(_connect, path, autocommit))
        try:
            yield SqliteThread(path, connection, thread)
        finally:
            await uninterrupted(thread.run(connection.close), name=f"closing {name}")
    finally:
        await uninterrupted(asyncio.to_thread(thread.close), name=f"ending {name}")


def _connect(path: Path, autocommit: bool) -> sqlite3.Connection:
    prepare_sqlite_file(path)
    connection = sqlite3.connect(
        path,
        timeout=BUSY_TIMEOUT_SECONDS,
        isolation_level=None if autocommit else "IMMEDIATE",
        check_same_thread=False,
        factory=_ImmediateConnection,
    )
    for pragma in SQLITE_PRAGMAS:
        connection.execute(pragma)
    return connection
