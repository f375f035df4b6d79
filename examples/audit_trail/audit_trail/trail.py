"""From what happens to what is stored: recording never waits, storing follows at once."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from threading import Lock
from typing import Any, Final, Protocol

from audit_trail.chain import Draft, Head
from audit_trail.subject import Subject

logger = logging.getLogger(__name__)

MAX_PENDING: Final = 10_000
"""What waits for a database that does not answer; beyond it entries are lost, and their number is kept."""

BATCH: Final = 500
FIRST_RETRY_SECONDS: Final = 0.1
LAST_RETRY_SECONDS: Final = 10.0


class Store(Protocol):
    """Where drafts go."""

    async def append(self, drafts: list[Draft]) -> Head: ...


class Trail:
    """The open trail of one process. Any thread may `record`; the rest belongs to the service's loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._lock = Lock()
        self._pending: deque[Draft] = deque()
        self._recorded = 0
        self._stored = 0
        self._lost = 0
        self._wake = asyncio.Event()
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    def record(self, event: str, subject: Subject, **detail: Any) -> None:
        """Take note of an event. It is stored soon; `flush` waits for that."""
        draft = Draft.now(event, subject, detail)
        with self._lock:
            if len(self._pending) >= MAX_PENDING:
                self._lost += 1
                return
            self._pending.append(draft)
            self._recorded += 1
        try:
            self._loop.call_soon_threadsafe(self._wake.set)
        except RuntimeError:
            logger.error("%s of task %s came after the end of the trail", event, subject.task_id)

    async def flush(self) -> None:
        """Return when everything that was recorded before is stored."""
        if self._stored < self._recorded:
            waiter = self._loop.create_future()
            self._waiters.append((self._recorded, waiter))
            await waiter

    async def write(self) -> None:
        """Store what is recorded, until cancelled; a failing database is tried again."""
        retry_seconds = FIRST_RETRY_SECONDS
        while True:
            await self._wake.wait()
            self._wake.clear()
            while batch := self._batch():
                try:
                    await self._store.append(batch)
                except Exception:  # the database may be away; what is recorded waits
                    logger.exception("%d audit entries wait: the database does not take them", len(batch))
                    await asyncio.sleep(retry_seconds)
                    retry_seconds = min(retry_seconds * 2, LAST_RETRY_SECONDS)
                else:
                    retry_seconds = FIRST_RETRY_SECONDS
                    self._take_out(batch)

    def _batch(self) -> list[Draft]:
        with self._lock:
            if self._lost and len(self._pending) < MAX_PENDING:
                lost, self._lost = self._lost, 0
                self._pending.append(Draft.now("entries_lost", Subject(), {"count": lost}))
                self._recorded += 1
            return [self._pending[index] for index in range(min(BATCH, len(self._pending)))]

    def _take_out(self, batch: list[Draft]) -> None:
        with self._lock:
            for _ in batch:
                self._pending.popleft()
        self._stored += len(batch)
        for target, waiter in self._waiters:
            if target <= self._stored and not waiter.done():
                waiter.set_result(None)
        self._waiters = [(target, waiter) for target, waiter in self._waiters if not waiter.done()]
