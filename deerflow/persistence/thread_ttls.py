"""How long the threads of one database last; those without a row here last for ever."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from sqlalchemy import bindparam, delete, insert, select, union_all, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.sql.dml import Insert

from deerflow.persistence.tables import runs, thread_leftovers, thread_ttls, threads
from deerflow.persistence.transactions import Transactions
from deerflow.runs.record import ACTIVE_STATUSES
from deerflow.runs.thread_ttl import SWEEP_PAUSE, ThreadExpiry, ThreadTtl, TtlStrategy


def _set_with(dialect: Any) -> Insert:
    statement = dialect.insert(thread_ttls)
    return statement.on_conflict_do_update(  # type: ignore[no-any-return]
        index_elements=["thread_id"],
        set_={name: statement.excluded[name] for name in ("minutes", "strategy", "due_at")},
    )


_SET: Final = {"sqlite": _set_with(sqlite), "postgresql": _set_with(postgresql)}
_GET: Final = (
    select(thread_ttls, threads.c.updated_at)
    .join(threads, threads.c.thread_id == thread_ttls.c.thread_id)
    .where(thread_ttls.c.thread_id == bindparam("thread"))
)
_DUE: Final = (
    union_all(
        *(
            select(table.c.thread_id, table.c.due_at).where(table.c.due_at <= bindparam("now"))
            for table in (thread_leftovers, thread_ttls)
        )
    )
    .order_by("due_at")
    .limit(bindparam("most"))
)
# A run that is recorded in this moment locks the same row: it keeps the thread, or finds none.
_LOCK: Final = select(threads.c.thread_id).where(threads.c.thread_id == bindparam("thread")).with_for_update()
_IS_ACTIVE: Final = (
    select(runs.c.run_id)
    .where(runs.c.thread_id == bindparam("thread"), runs.c.status.in_(tuple(ACTIVE_STATUSES)))
    .limit(1)
)
_POSTPONE: Final = (
    update(thread_ttls).where(thread_ttls.c.thread_id == bindparam("thread")).values(due_at=bindparam("due"))
)
_DELETE: Final = delete(threads).where(threads.c.thread_id == bindparam("thread"))
_LEAVE: Final = insert(thread_leftovers).values(thread_id=bindparam("thread"), due_at=bindparam("due"))
_TAKE_UP: Final = (
    update(thread_leftovers)
    .where(thread_leftovers.c.thread_id == bindparam("thread"), thread_leftovers.c.due_at <= bindparam("now"))
    .values(due_at=bindparam("due"))
)
_CLEAR: Final = delete(thread_leftovers).where(thread_leftovers.c.thread_id == bindparam("thread"))


class SqlThreadTtlStore:
    """Times to live in SQL; the contract stands in `deerflow.runs.stores.ThreadTtlStore`."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def get(self, thread_id: str) -> ThreadExpiry | None:
        return await self._transactions.read(lambda connection: _get(connection, thread_id))

    async def due(self, now: datetime, limit: int) -> list[str]:
        parameters = {"now": now, "most": limit}
        return await self._transactions.read(
            lambda connection: list(connection.execute(_DUE, parameters).scalars())
        )

    async def expire(self, thread_id: str, now: datetime) -> TtlStrategy | None:
        return await self._transactions.write(lambda connection: _expire(connection, thread_id, now))

    async def settle(self, thread_id: str, strategy: TtlStrategy, now: datetime) -> None:
        await self._transactions.write(lambda connection: _settle(connection, thread_id, strategy, now))

    async def postpone(self, thread_id: str, due_at: datetime) -> None:
        await self._transactions.write(lambda connection: _postpone(connection, thread_id, due_at))


def set_ttl(connection: Connection, thread_id: str, ttl: ThreadTtl, *, since: datetime) -> None:
    """Let a thread last for `ttl`, within the caller's transaction, in which it changed at `since`."""
    values = {"thread_id": thread_id, "minutes": ttl.minutes, "strategy": ttl.strategy}
    connection.execute(_SET[connection.dialect.name], {**values, "due_at": since + ttl.span})


def _get(connection: Connection, thread_id: str) -> ThreadExpiry | None:
    row = connection.execute(_GET, {"thread": thread_id}).one_or_none()
    if row is None:
        return None
    ttl = ThreadTtl(row.minutes, row.strategy)
    # What changes a thread does not write here: that it lasts longer follows, and is noted when it is due.
    return ThreadExpiry(ttl, max(row.due_at, row.updated_at + ttl.span))


def _expire(connection: Connection, thread_id: str, now: datetime) -> TtlStrategy | None:
    again = now + SWEEP_PAUSE
    if connection.execute(_LOCK, {"thread": thread_id}).one_or_none() is None:
        taken = connection.execute(_TAKE_UP, {"thread": thread_id, "now": now, "due": again}).rowcount
        return "delete" if taken else None
    connection.execute(_CLEAR, {"thread": thread_id})  # there is a thread of this name again
    expiry = _get(connection, thread_id)
    if expiry is None:
        return None
    if expiry.expires_at > now:
        _postpone(connection, thread_id, expiry.expires_at)
        return None
    if connection.execute(_IS_ACTIVE, {"thread": thread_id}).one_or_none() is not None:
        _postpone(connection, thread_id, again)
        return None
    if expiry.ttl.strategy == "delete":
        connection.execute(_DELETE, {"thread": thread_id})
        connection.execute(_LEAVE, {"thread": thread_id, "due": again})
    else:
        _postpone(connection, thread_id, again)
    return expiry.ttl.strategy


def _settle(connection: Connection, thread_id: str, strategy: TtlStrategy, now: datetime) -> None:
    if strategy == "delete":
        connection.execute(_CLEAR, {"thread": thread_id})
    elif (expiry := _get(connection, thread_id)) is not None:
        _postpone(connection, thread_id, now + expiry.ttl.span)


def _postpone(connection: Connection, thread_id: str, due_at: datetime) -> None:
    connection.execute(_POSTPONE, {"thread": thread_id, "due": due_at})
