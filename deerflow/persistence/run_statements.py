"""The statements behind a run's moves, built once so that SQLAlchemy compiles them once."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Boolean, ColumnElement, bindparam, func, insert, or_, select, update
from sqlalchemy.sql.dml import ReturningInsert, ReturningUpdate

from deerflow.persistence.columns import CleanText
from deerflow.persistence.rows import RUN_COLUMNS, THREAD_COLUMNS
from deerflow.persistence.tables import runs, threads
from deerflow.persistence.threads import DIALECTS
from deerflow.runs.record import ACTIVE_STATUSES, ThreadStatus

ACTIVE: Final = tuple(ACTIVE_STATUSES)


def _enter_thread_with(dialect: Any) -> ReturningInsert[Any]:
    statement = dialect.insert(threads)
    return statement.on_conflict_do_update(  # type: ignore[no-any-return]
        index_elements=["thread_id"],
        set_={"status": statement.excluded.status, "updated_at": statement.excluded.updated_at},
        where=threads.c.user_id.is_not_distinct_from(statement.excluded.user_id),
    ).returning(*THREAD_COLUMNS)


ENTER_THREAD = {name: _enter_thread_with(dialect) for name, dialect in DIALECTS.items()}
ENTER_EXISTING_THREAD = (
    update(threads)
    .where(
        threads.c.thread_id == bindparam("thread"),
        threads.c.user_id.is_not_distinct_from(bindparam("owner")),
    )
    .values(status=ThreadStatus.BUSY, updated_at=bindparam("at"))
    .returning(*THREAD_COLUMNS)
)
STAMP_THREAD = (
    update(threads)
    .where(threads.c.thread_id == bindparam("thread"))
    .values(metadata=bindparam("stamped"))
    .returning(*THREAD_COLUMNS)
)
INSERT_RUN = insert(runs)
IS_THREAD_BUSY = (
    select(runs.c.run_id).where(runs.c.thread_id == bindparam("thread"), runs.c.status.in_(ACTIVE)).limit(1)
)


def _request_stop_where(condition: ColumnElement[bool]) -> ReturningUpdate[Any]:
    return (
        update(runs)
        .where(condition, runs.c.status.in_(ACTIVE))
        .values(stop_requested=func.coalesce(runs.c.stop_requested, bindparam("reason", type_=CleanText)))
        .returning(runs.c.run_id)
    )


REQUEST_STOP = _request_stop_where(runs.c.run_id == bindparam("run"))
SUPERSEDE = _request_stop_where(runs.c.thread_id == bindparam("thread"))

MOVE_THREAD = (
    update(threads)
    .where(
        threads.c.thread_id
        == select(runs.c.thread_id).where(runs.c.run_id == bindparam("run")).scalar_subquery()
    )
    .values(
        status=bindparam("wanted"),
        updated_at=bindparam("at"),
        event_seq=threads.c.event_seq + bindparam("count"),
    )
    .returning(threads.c.thread_id, threads.c.event_seq)
)
_other_runs = runs.alias("other_runs")
# A statement of its own after the thread is locked: it sees what others have committed up to that lock.
MOVE_RUN = (
    update(runs)
    .where(
        runs.c.run_id == bindparam("run"),
        runs.c.status.in_(bindparam("before", expanding=True)),
        or_(bindparam("any_host", type_=Boolean), runs.c.host_id == bindparam("host")),
        or_(bindparam("ends", type_=Boolean), runs.c.stop_requested.is_(None)),
    )
    .values(
        status=bindparam("wanted"),
        attempt=runs.c.attempt + bindparam("begun"),
        error=bindparam("its_error"),
        stop_reason=bindparam("its_stop_reason"),
        updated_at=bindparam("at"),
        change_seq=bindparam("change"),
    )
    .returning(
        *RUN_COLUMNS,
        select(func.count())
        .select_from(_other_runs)
        .where(
            _other_runs.c.thread_id == bindparam("thread"),
            _other_runs.c.run_id != bindparam("run"),
            _other_runs.c.status.in_(ACTIVE),
        )
        .scalar_subquery()
        .label("others_active"),
    )
)
SET_THREAD_STATUS = (
    update(threads).where(threads.c.thread_id == bindparam("thread")).values(status=bindparam("wanted"))
)
