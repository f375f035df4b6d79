"""Where every statement of the host's own tables runs: short transactions, each whole or not at all.

A transaction is one function of a synchronous connection, run in a thread of this database. Measured on a
SQLite file, three statements through an asynchronous driver cost five times as much, for each of their
steps is a hop between threads; here the whole transaction is one hop. It belongs to no event loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from deerflow.persistence.errors import DatabaseUnavailableError

MAX_WAITING_TRANSACTIONS: Final = 10_000

T = TypeVar("T")


@dataclass(frozen=True)
class Lane:
    """Threads, and the engine whose connections only they use."""

    engine: Engine
    threads: ThreadPoolExecutor

    @staticmethod
    def of(engine: Engine, *, size: int = 1) -> Lane:
        """Return a lane of `size` threads."""
        return Lane(engine, ThreadPoolExecutor(size, thread_name_prefix="database"))

    def close(self) -> None:
        """Wait for what runs, refuse what waits, and close the connections."""
        self.threads.shutdown(wait=True, cancel_futures=True)
        self.engine.dispose()


class Transactions:
    """Runs functions of a connection; one that is cancelled before it began never reaches the database."""

    def __init__(self, name: str, *, writing: Lane, reading: Lane | None = None) -> None:
        self._name = name
        self._writing = writing
        self._reading = reading or writing
        self._room = threading.BoundedSemaphore(MAX_WAITING_TRANSACTIONS)

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
        if not self._room.acquire(blocking=False):
            raise DatabaseUnavailableError(
                f"database {self._name}: {MAX_WAITING_TRANSACTIONS} transactions wait; try again later"
            )
        try:
            future = lane.threads.submit(job)
        except RuntimeError as error:
            self._room.release()
            raise DatabaseUnavailableError(f"database {self._name} is closed") from error
        future.add_done_callback(self._leave)
        return await asyncio.wrap_future(future)

    def _leave(self, _: Future[T]) -> None:
        self._room.release()

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
