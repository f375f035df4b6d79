"""The threads of one database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, bindparam, delete, func, select, true, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.sql.dml import ReturningInsert

from deerflow.errors import ConflictError, InvalidRequestError, NotFoundError
from deerflow.persistence.matching import contains_json
from deerflow.persistence.rows import THREAD_COLUMNS, thread_from, values_of
from deerflow.persistence.tables import threads
from deerflow.persistence.thread_ttls import set_ttl
from deerflow.persistence.transactions import Transactions
from deerflow.runs.record import ThreadRecord, ThreadStatus, utc_now
from deerflow.runs.stores import ThreadQuery
from deerflow.runs.thread_ttl import ThreadTtl

SORTABLE: Final = ("thread_id", "created_at", "updated_at", "state_updated_at", "status")
DIALECTS: Final[dict[str, Any]] = {"postgresql": postgresql, "sqlite": sqlite}


def _create_with(dialect: Any) -> ReturningInsert[Any]:
    statement = dialect.insert(threads).on_conflict_do_nothing(index_elements=["thread_id"])
    return statement.returning(*THREAD_COLUMNS)  # type: ignore[no-any-return]


def _get_or_create_with(dialect: Any) -> ReturningInsert[Any]:
    statement = dialect.insert(threads)
    # Setting a column to itself gives the row that is there in the same statement: no race to lose.
    return statement.on_conflict_do_update(  # type: ignore[no-any-return]
        index_elements=["thread_id"],
        set_={"updated_at": threads.c.updated_at},
        where=threads.c.user_id.is_not_distinct_from(statement.excluded.user_id),
    ).returning(*THREAD_COLUMNS)


_CREATE: Final = {name: _create_with(dialect) for name, dialect in DIALECTS.items()}
_GET_OR_CREATE: Final = {name: _get_or_create_with(dialect) for name, dialect in DIALECTS.items()}
_SELECT_FOR_CHANGE: Final = (
    select(*THREAD_COLUMNS).where(threads.c.thread_id == bindparam("thread")).with_for_update(key_share=True)
)


class SqlThreadStore:
    """Threads in SQL; the contract stands in `deerflow.runs.stores.ThreadStore`."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def create(self, thread: ThreadRecord, *, ttl: ThreadTtl | None = None) -> ThreadRecord:
        return await self._transactions.write(lambda connection: _create(connection, thread, ttl))

    async def get_or_create(self, thread: ThreadRecord, *, ttl: ThreadTtl | None = None) -> ThreadRecord:
        return await self._transactions.write(lambda connection: _get_or_create(connection, thread, ttl))

    async def get(self, thread_id: str, *, user_id: str | None = None) -> ThreadRecord | None:
        return await self._transactions.read(lambda connection: _get(connection, thread_id, user_id))

    async def search(self, query: ThreadQuery) -> list[ThreadRecord]:
        return await self._transactions.read(lambda connection: _search(connection, query))

    async def count(self, query: ThreadQuery) -> int:
        return await self._transactions.read(lambda connection: _count(connection, query))

    async def merge_metadata(
        self,
        thread_id: str,
        metadata: Mapping[str, Any],
        *,
        only_absent: bool = False,
        ttl: ThreadTtl | None = None,
    ) -> ThreadRecord:
        def merge(connection: Connection) -> ThreadRecord:
            merged = merge_metadata(connection, thread_id, metadata, only_absent=only_absent)
            if ttl is not None:
                set_ttl(connection, thread_id, ttl, since=merged.updated_at)
            return merged

        return await self._transactions.write(merge)

    async def touch_state(self, thread_id: str, status: ThreadStatus | None = None) -> None:
        await self._transactions.write(lambda connection: _touch(connection, thread_id, status))

    async def delete(self, thread_id: str) -> bool:
        statement = delete(threads).where(threads.c.thread_id == thread_id)
        return await self._transactions.write(lambda connection: connection.execute(statement).rowcount > 0)


def missing_thread(thread_id: str) -> NotFoundError:
    """The error for a thread that does not exist, or not for this caller."""
    return NotFoundError(f"there is no thread {thread_id}")


def _create(connection: Connection, thread: ThreadRecord, ttl: ThreadTtl | None) -> ThreadRecord:
    created = _insert(connection, thread, ttl)
    if created is None:
        raise ConflictError(f"thread {thread.thread_id} exists already")
    return created


def _insert(connection: Connection, thread: ThreadRecord, ttl: ThreadTtl | None) -> ThreadRecord | None:
    row = connection.execute(_CREATE[connection.dialect.name], values_of(thread)).one_or_none()
    if row is None:
        return None
    created = thread_from(row)
    if ttl is not None:
        set_ttl(connection, created.thread_id, ttl, since=created.updated_at)
    return created


def _get_or_create(connection: Connection, thread: ThreadRecord, ttl: ThreadTtl | None) -> ThreadRecord:
    if ttl is not None and (created := _insert(connection, thread, ttl)) is not None:
        return created
    row = connection.execute(_GET_OR_CREATE[connection.dialect.name], values_of(thread)).one_or_none()
    if row is None:
        raise missing_thread(thread.thread_id)
    return thread_from(row)


def _get(connection: Connection, thread_id: str, user_id: str | None) -> ThreadRecord | None:
    statement = select(*THREAD_COLUMNS).where(threads.c.thread_id == thread_id)
    if user_id is not None:
        statement = statement.where(threads.c.user_id == user_id)
    row = connection.execute(statement).one_or_none()
    return None if row is None else thread_from(row)


def _search(connection: Connection, query: ThreadQuery) -> list[ThreadRecord]:
    if query.sort_by not in SORTABLE or query.sort_order not in ("asc", "desc"):
        raise InvalidRequestError(
            f"cannot sort threads by {query.sort_by!r} {query.sort_order!r}; "
            f"allowed: {', '.join(SORTABLE)}, each asc or desc"
        )
    order = [threads.c[query.sort_by], threads.c.thread_id]
    statement: Select[Any] = select(*THREAD_COLUMNS).where(_matches(connection, query))
    if query.sort_order == "desc":
        statement = statement.order_by(*(column.desc().nulls_last() for column in order))
    else:
        statement = statement.order_by(*(column.asc().nulls_first() for column in order))
    rows = connection.execute(statement.limit(query.limit).offset(query.offset))
    return [thread_from(row) for row in rows]


def _count(connection: Connection, query: ThreadQuery) -> int:
    statement = select(func.count()).select_from(threads).where(_matches(connection, query))
    return connection.execute(statement).scalar_one()


def _matches(connection: Connection, query: ThreadQuery) -> ColumnElement[bool]:
    condition: ColumnElement[bool] = true()
    if query.user_id is not None:
        condition &= threads.c.user_id == query.user_id
    if query.status is not None:
        condition &= threads.c.status == query.status
    if query.ids is not None:
        condition &= threads.c.thread_id.in_(list(query.ids))
    if query.metadata:
        condition &= contains_json(connection, threads.c.metadata, query.metadata)
    return condition


def merge_metadata(
    connection: Connection, thread_id: str, metadata: Mapping[str, Any], *, only_absent: bool
) -> ThreadRecord:
    """Merge top-level keys within the caller's transaction."""
    # Nobody changes the row between this statement and the next: it is locked, on SQLite with the file.
    row = connection.execute(_SELECT_FOR_CHANGE, {"thread": thread_id}).one_or_none()
    if row is None:
        raise missing_thread(thread_id)
    present = thread_from(row).metadata
    if only_absent:
        metadata = {key: value for key, value in metadata.items() if present.get(key) is None}
    statement = (
        update(threads)
        .where(threads.c.thread_id == thread_id)
        .values(metadata={**present, **metadata}, updated_at=utc_now())
        .returning(*THREAD_COLUMNS)
    )
    return thread_from(connection.execute(statement).one())


def _touch(connection: Connection, thread_id: str, status: ThreadStatus | None) -> None:
    moment = utc_now()
    changed: dict[str, Any] = {"state_updated_at": moment, "updated_at": moment}
    if status is not None:
        changed["status"] = status
    connection.execute(update(threads).where(threads.c.thread_id == thread_id).values(changed))
