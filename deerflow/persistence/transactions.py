"""Where every statement of the host's own tables runs: short transactions, each whole or not at all.

A transaction is one function of a synchronous connection, run in a thread of this database. Measured on a
SQLite file, three statements through an asynchronous driver cost five times as much, for each of their
steps is a hop between threads; here the whole transaction is one hop. It belongs to no event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from deerflow.persistence.errors import DatabaseUnavailableError
from deerflow.persistence.job_threads import JobRefusedError, JobThreads

T = TypeVar("T")


@dataclass(frozen=True)
class Lane:
    """Threads, and the engine whose connections only they use."""

    engine: Engine
    threads: JobThreads

    @staticmethod
    def of(engine: Engine, *, size: int = 1) -> Lane:
        """Return a lane of `size` threads."""
        return Lane(engine, JobThreads(size, name="database"))

    def close(self) -> None:
        """Wait for what runs, refuse what waits, and close the connections."""
        self.threads.close()
        self.engine.dispose()


class Transactions:
    """Runs functions of a connection; one that is cancelled before it began never reaches the database."""

    def __init__(self, name: str, *, writing: Lane, reading: Lane | None = None) -> None:
        self._name = name
        self._writing = writing
        self._reading = reading or writing

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Return what `work` returns, in one transaction that is rolled back when it raises.

        A caller that is cancelled once it runs loses the answer, not the transaction: it is finished before
        any later one begins on SQLite. Raises `DatabaseUnavailableError` where the database does not answer.
        """
        return await self._run(self._writing, lambda: self._in_transaction(work))

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Return what `work` reads; each of its statements sees what is committed when it begins."""
        return await self._run(self._reading, lambda: self._in_transaction(work, reading=True))

    async def close(self) -> None:
        """Finish what runs and close every connection; afterwards nothing is accepted."""
        lanes = {id(lane): lane for lane in (self._writing, self._reading)}
        for lane in lanes.values():
            await asyncio.to_thread(lane.close)

    async def _run(self, lane: Lane, job: Callable[[], T]) -> T:
        try:
            return await lane.threads.run(job)
        except JobRefusedError as error:
            raise DatabaseUnavailableError(f"database {self._name}: {error}") from error

    def _in_transaction(self, work: Callable[[Connection], T], *, reading: bool = False) -> T:
        try:
            if reading:
                with self._reading.engine.connect() as connection:
                    return work(connection)
            with self._writing.engine.begin() as connection:
                return work(connection)
        except (OperationalError, InterfaceError, PoolTimeoutError) as error:
            reason = getattr(error, "orig", None) or error
            raise DatabaseUnavailableError(f"database {self._name} does not answer: {reason}") from error
