"""The hosts on one database: which of them live, and what becomes of the runs of those that do not.

On PostgreSQL a host lives as long as its lease, by the server's clock. On SQLite all hosts share a machine,
so that a lock on a file of its own shows it: the system gives the lock back the moment a process ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout
from sqlalchemy import Interval, bindparam, case, delete, func, null, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.sql.dml import Insert

from deerflow.persistence.rows import RUN_COLUMNS, run_from
from deerflow.persistence.run_statements import ACTIVE
from deerflow.persistence.tables import run_hosts, runs
from deerflow.persistence.transactions import Transactions
from deerflow.runs.record import RunRecord, RunStatus

logger = logging.getLogger(__name__)


def _beat_with(dialect: Any, lease_until: Any) -> Insert:
    statement = dialect.insert(run_hosts).values(host_id=bindparam("host"), lease_until=lease_until)
    return statement.on_conflict_do_update(  # type: ignore[no-any-return]
        index_elements=["host_id"], set_={"lease_until": statement.excluded.lease_until}
    )


_BEAT: Final = {
    "sqlite": _beat_with(sqlite, null()),
    "postgresql": _beat_with(postgresql, func.now() + bindparam("lease", type_=Interval)),
}
_OWNED: Final = select(runs.c.run_id, runs.c.stop_requested).where(
    runs.c.status.in_(ACTIVE), runs.c.host_id == bindparam("host")
)
_OTHERS: Final = select(run_hosts.c.host_id).where(run_hosts.c.host_id != bindparam("host"))
# A host that renews its lease at this moment and one that buries it lock the same row: either the lease is
# renewed and the row stays, or the runs are gone with the row before their former host reads what it has.
_DEAD: Final = (
    select(run_hosts.c.host_id)
    .where(
        run_hosts.c.host_id != bindparam("host"),
        or_(
            run_hosts.c.lease_until < func.now(),
            run_hosts.c.host_id.in_(bindparam("found_dead", expanding=True)),
        ),
    )
    .with_for_update(skip_locked=True)
)
_BURY: Final = delete(run_hosts).where(run_hosts.c.host_id.in_(_DEAD))
_ORPHANS: Final = (
    select(runs.c.run_id)
    .where(
        runs.c.status.in_(ACTIVE),
        or_(runs.c.host_id.is_(None), runs.c.host_id.not_in(select(run_hosts.c.host_id))),
    )
    .order_by(runs.c.run_id)
    .with_for_update(skip_locked=True)  # what others are changing is taken up with the next look
)
_INHERIT: Final = (
    update(runs)
    .where(runs.c.run_id.in_(_ORPHANS))
    .values(
        host_id=bindparam("heir"),
        attempt=runs.c.attempt + case((runs.c.status == RunStatus.RUNNING, 1), else_=0),
    )
    .returning(*RUN_COLUMNS)
)


class SqlHostStore:
    """Hosts in SQL; the contract stands in `deerflow.runs.stores.HostStore`."""

    leases_expire = True

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def enter(self, host_id: str, lease_seconds: float) -> None:
        await self.beat(host_id, lease_seconds)

    async def beat(self, host_id: str, lease_seconds: float) -> dict[str, str | None]:
        return await self._transactions.write(lambda connection: _beat(connection, host_id, lease_seconds))

    async def owned(self, host_id: str) -> dict[str, str | None]:
        return await self._transactions.read(lambda connection: _owned(connection, host_id))

    async def inherit(self, host_id: str) -> list[RunRecord]:
        return await self._inherit(host_id, ())

    async def leave(self, host_id: str) -> None:
        statement = delete(run_hosts).where(run_hosts.c.host_id == host_id)
        await self._transactions.write(lambda connection: connection.execute(statement))

    async def _inherit(self, host_id: str, found_dead: Collection[str]) -> list[RunRecord]:
        return await self._transactions.write(lambda connection: _inherit(connection, host_id, found_dead))


class SqliteHostStore(SqlHostStore):
    """Hosts of a SQLite file: each holds a lock on a file beside it for as long as it lives."""

    leases_expire = False

    def __init__(self, transactions: Transactions, path: Path) -> None:
        super().__init__(transactions)
        self._path = path
        self._held: dict[str, FileLock] = {}

    async def enter(self, host_id: str, lease_seconds: float) -> None:
        lock = self._lock_of(host_id)
        # The lock comes first: a row without one is a dead host's.
        await asyncio.to_thread(lock.acquire, timeout=0)
        self._held[host_id] = lock
        await super().enter(host_id, lease_seconds)

    async def inherit(self, host_id: str) -> list[RunRecord]:
        others = await self._transactions.read(
            lambda connection: connection.execute(_OTHERS, {"host": host_id}).scalars().all()
        )
        locks = await asyncio.to_thread(self._take_locks, others)
        try:
            return await self._inherit(host_id, locks.keys())
        finally:
            await asyncio.to_thread(_give_back, locks.values())

    async def leave(self, host_id: str) -> None:
        try:
            await super().leave(host_id)
        finally:
            lock = self._held.pop(host_id, None)
            if lock is not None:
                await asyncio.to_thread(_give_back, [lock])

    def _take_locks(self, host_ids: Collection[str]) -> dict[str, FileLock]:
        """The locks of those that are dead; nobody else buries them meanwhile."""
        taken = {}
        for host_id in host_ids:
            lock = self._lock_of(host_id)
            with suppress(Timeout):
                lock.acquire(timeout=0)
                taken[host_id] = lock
        return taken

    def _lock_of(self, host_id: str) -> FileLock:
        return FileLock(f"{self._path}.{host_id}.alive", thread_local=False)


def _give_back(locks: Collection[FileLock]) -> None:
    for lock in locks:
        with suppress(OSError):  # somebody tidied up; an empty file that stays harms nobody
            Path(lock.lock_file).unlink()
        lock.release()


def _beat(connection: Connection, host_id: str, lease_seconds: float) -> dict[str, str | None]:
    parameters: dict[str, Any] = {"host": host_id}
    if connection.dialect.name == "postgresql":
        parameters["lease"] = timedelta(seconds=lease_seconds)
    connection.execute(_BEAT[connection.dialect.name], parameters)
    return _owned(connection, host_id)


def _owned(connection: Connection, host_id: str) -> dict[str, str | None]:
    return {row.run_id: row.stop_requested for row in connection.execute(_OWNED, {"host": host_id})}


def _inherit(connection: Connection, host_id: str, found_dead: Collection[str]) -> list[RunRecord]:
    buried = connection.execute(_BURY, {"host": host_id, "found_dead": list(found_dead)}).rowcount
    found = [run_from(row) for row in connection.execute(_INHERIT, {"heir": host_id})]
    if buried or found:
        logger.info("host %s: %d hosts are gone, %d of their runs are taken up", host_id, buried, len(found))
    return sorted(found, key=lambda run: (run.created_at, run.run_id))
