"""The statements behind a run's moves, built once so that SQLAlchemy compiles them once."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import (
    Boolean,
    ColumnElement,
    FromClause,
    and_,
    bindparam,
    case,
    false,
    func,
    insert,
    literal,
    not_,
    or_,
    select,
    update,
)
from sqlalchemy.sql.dml import ReturningInsert, ReturningUpdate

from deerflow.persistence.columns import CleanText
from deerflow.persistence.rows import RUN_COLUMNS, THREAD_COLUMNS
from deerflow.persistence.tables import runs, threads
from deerflow.persistence.threads import DIALECTS
from deerflow.runs.record import ACTIVE_STATUSES, RunStatus, ThreadStatus, statuses_before

ACTIVE: Final = tuple(ACTIVE_STATUSES)


def _is_one_of(table: FromClause, statuses: Collection[RunStatus]) -> ColumnElement[bool]:
    """Spelled out: SQLAlchemy writes a statement with IN anew each time that it is executed."""
    return or_(false(), *(table.c.status == status for status in sorted(statuses)))


def _is_owned(owner: ColumnElement[Any]) -> ColumnElement[bool]:
    of_any_owner = bindparam("of_any_owner", type_=Boolean)
    return or_(of_any_owner, threads.c.user_id.is_not_distinct_from(owner))


def _enter_thread_with(dialect: Any) -> ReturningInsert[Any]:
    statement = dialect.insert(threads)
    return statement.on_conflict_do_update(  # type: ignore[no-any-return]
        index_elements=["thread_id"],
        set_={"status": statement.excluded.status, "updated_at": statement.excluded.updated_at},
        where=_is_owned(statement.excluded.user_id),
    ).returning(*THREAD_COLUMNS)


ENTER_THREAD = {name: _enter_thread_with(dialect) for name, dialect in DIALECTS.items()}
ENTER_EXISTING_THREAD = (
    update(threads)
    .where(threads.c.thread_id == bindparam("thread"), _is_owned(bindparam("owner")))
    .values(status=ThreadStatus.BUSY, updated_at=bindparam("at"))
    .returning(*THREAD_COLUMNS)
)
STAMP_THREAD = (
    update(threads)
    .where(threads.c.thread_id == bindparam("thread"))
    .values(metadata=bindparam("stamped"))
    .returning(*THREAD_COLUMNS)
)
_active_runs = runs.alias("active_runs")
_ACTIVE_ON_THREAD = select(_active_runs.c.run_id).where(
    _active_runs.c.thread_id == bindparam("thread"), _is_one_of(_active_runs, ACTIVE)
)
IS_THREAD_BUSY = _ACTIVE_ON_THREAD.limit(1)
_BEGINS = and_(bindparam("may_begin", type_=Boolean), not_(_ACTIVE_ON_THREAD.exists()))
# The thread is locked: of several runs that come at once one at most finds nobody else.
INSERT_RUN = (
    insert(runs)
    .values(
        status=case((_BEGINS, RunStatus.RUNNING), else_=RunStatus.PENDING),
        attempt=case((_BEGINS, literal(1)), else_=literal(0)),
    )
    .returning(runs.c.status, runs.c.attempt)
)


def _request_stop_where(condition: ColumnElement[bool]) -> ReturningUpdate[Any]:
    return (
        update(runs)
        .where(condition, _is_one_of(runs, ACTIVE))
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


def _move_run_to(status: RunStatus) -> ReturningUpdate[Any]:
    others_active = (
        select(func.count())
        .select_from(_other_runs)
        .where(
            _other_runs.c.thread_id == bindparam("thread"),
            _other_runs.c.run_id != bindparam("run"),
            _is_one_of(_other_runs, ACTIVE),
        )
        .scalar_subquery()
    )
    return (
        update(runs)
        .where(
            runs.c.run_id == bindparam("run"),
            _is_one_of(runs, statuses_before(status)),
            or_(bindparam("any_host", type_=Boolean), runs.c.host_id == bindparam("host")),
            *([] if status not in ACTIVE else [runs.c.stop_requested.is_(None)]),
        )
        .values(
            status=status,
            attempt=runs.c.attempt + (1 if status is RunStatus.RUNNING else 0),
            error=bindparam("its_error"),
            stop_reason=bindparam("its_stop_reason"),
            updated_at=bindparam("at"),
            change_seq=bindparam("change"),
        )
        .returning(*RUN_COLUMNS, others_active.label("others_active"))
    )


# Statements of their own after the thread is locked: they see what others have committed up to that lock.
MOVE_RUN: Final = {status: _move_run_to(status) for status in RunStatus}
SET_THREAD_STATUS = (
    update(threads).where(threads.c.thread_id == bindparam("thread")).values(status=bindparam("wanted"))
)
