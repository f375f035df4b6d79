"""The runs of one database, and what their moves mean for their thread.

Every transaction locks in one order: thread, run, counter of changes. So none waits for another in a circle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from deerflow.errors import ConflictError, NotFoundError
from deerflow.persistence.rows import (
    RUN_COLUMNS,
    insert_events,
    next_change,
    run_from,
    thread_from,
    values_of,
)
from deerflow.persistence.run_statements import (
    ACTIVE,
    ENTER_EXISTING_THREAD,
    ENTER_THREAD,
    INSERT_RUN,
    IS_THREAD_BUSY,
    MOVE_RUN,
    MOVE_THREAD,
    REQUEST_STOP,
    SET_THREAD_STATUS,
    STAMP_THREAD,
    SUPERSEDE,
)
from deerflow.persistence.tables import runs, threads
from deerflow.persistence.threads import merge_metadata, missing_thread
from deerflow.persistence.transactions import Transactions
from deerflow.runs.record import (
    THREAD_STATUS_AFTER,
    IllegalRunMoveError,
    NewRunEvent,
    RunLostError,
    RunRecord,
    RunStatus,
    StopRequestedError,
    ThreadBusyError,
    ThreadRecord,
    ThreadStatus,
    statuses_before,
    utc_now,
)
from deerflow.runs.stores import Admission


@dataclass(frozen=True)
class _New:
    run: RunRecord
    thread: ThreadRecord | None
    of_any_owner: bool
    may_begin: bool


@dataclass(frozen=True)
class _Move:
    run_id: str
    status: RunStatus
    error: str | None
    stop_reason: str | None
    thread_status: ThreadStatus
    events: Sequence[NewRunEvent]
    thread_metadata: Mapping[str, Any]
    host_id: str | None
    at: datetime


class SqlRunStore:
    """Runs in SQL; the contract stands in `deerflow.runs.stores.RunStore`."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def create(
        self,
        run: RunRecord,
        *,
        thread: ThreadRecord | None = None,
        of_any_owner: bool = False,
        may_begin: bool = False,
    ) -> Admission:
        new = _New(run, thread, of_any_owner=of_any_owner, may_begin=may_begin)
        return await self._transactions.write(lambda connection: _create(connection, new))

    async def move(
        self,
        run_id: str,
        status: RunStatus,
        *,
        error: str | None = None,
        stop_reason: str | None = None,
        events: Sequence[NewRunEvent] = (),
        thread_status: ThreadStatus | None = None,
        thread_metadata: Mapping[str, Any] | None = None,
        host_id: str | None = None,
    ) -> RunRecord:
        move = _Move(
            run_id=run_id,
            status=status,
            error=error,
            stop_reason=stop_reason,
            thread_status=thread_status or THREAD_STATUS_AFTER[status],
            events=tuple(events),
            thread_metadata=thread_metadata or {},
            host_id=host_id,
            at=utc_now(),
        )
        return await self._transactions.write(lambda connection: _move(connection, move))

    async def get(self, run_id: str, *, thread_id: str | None = None) -> RunRecord | None:
        return await self._transactions.read(lambda connection: _get(connection, run_id, thread_id))

    async def list_by_thread(
        self, thread_id: str, *, status: RunStatus | None = None, limit: int = 10, offset: int = 0
    ) -> list[RunRecord]:
        statement = select(*RUN_COLUMNS).where(runs.c.thread_id == thread_id)
        if status is not None:
            statement = statement.where(runs.c.status == status)
        statement = statement.order_by(runs.c.created_at.desc(), runs.c.run_id.desc())
        return await self._list(statement.limit(limit).offset(offset))

    async def list_active(
        self, *, thread_id: str | None = None, created_before: datetime | None = None
    ) -> list[RunRecord]:
        statement = select(*RUN_COLUMNS).where(runs.c.status.in_(ACTIVE))
        if thread_id is not None:
            statement = statement.where(runs.c.thread_id == thread_id)
        if created_before is not None:
            statement = statement.where(runs.c.created_at < created_before)
        return await self._list(statement.order_by(runs.c.created_at, runs.c.run_id))

    async def request_stop(self, run_id: str, reason: str) -> bool:
        parameters = {"run": run_id, "reason": reason}
        return await self._transactions.write(
            lambda connection: connection.execute(REQUEST_STOP, parameters).one_or_none() is not None
        )

    async def delete(
        self,
        run_id: str,
        *,
        thread_id: str,
        host_id: str | None = None,
        thread_status: ThreadStatus = ThreadStatus.IDLE,
    ) -> bool:
        run = (thread_id, run_id)
        return await self._transactions.write(
            lambda connection: _delete(connection, run, host_id, thread_status)
        )

    async def _list(self, statement: Any) -> list[RunRecord]:
        return await self._transactions.read(
            lambda connection: [run_from(row) for row in connection.execute(statement)]
        )


def _create(connection: Connection, new: _New) -> Admission:
    run = new.run
    entered = _stamp(connection, _enter(connection, new), run)
    superseded = _make_room(connection, run)
    owner = entered.user_id
    values = values_of(run) | {"user_id": owner, "change_seq": next_change(connection)}
    values |= {"thread": run.thread_id, "may_begin": new.may_begin}
    try:
        row = connection.execute(INSERT_RUN, values).one()
    except IntegrityError as error:
        raise ConflictError(
            f"run {run.run_id} exists already, or another run of thread {run.thread_id} is running"
        ) from error
    recorded = replace(run, user_id=owner, status=RunStatus(row.status), attempt=row.attempt)
    return Admission(entered, recorded, superseded)


def _make_room(connection: Connection, run: RunRecord) -> tuple[str, ...]:
    """What the run's strategy means for the others of its thread, whose row is locked: of several runs that
    come at once, on whatever hosts, each sees those before it, and none after."""
    if run.multitask_strategy == "reject":
        if connection.execute(IS_THREAD_BUSY, {"thread": run.thread_id}).one_or_none() is not None:
            advice = "wait for it, or choose another multitask_strategy than 'reject'"
            raise ThreadBusyError(run.thread_id, advice)
    elif run.multitask_strategy in ("interrupt", "rollback"):
        parameters = {"thread": run.thread_id, "reason": run.multitask_strategy}
        return tuple(connection.execute(SUPERSEDE, parameters).scalars())
    return ()


def _enter(connection: Connection, new: _New) -> ThreadRecord:
    run, thread = new.run, new.thread
    if thread is None:
        place = {"thread": run.thread_id, "owner": run.user_id, "of_any_owner": new.of_any_owner}
        row = connection.execute(ENTER_EXISTING_THREAD, place | {"at": run.updated_at}).one_or_none()
    else:
        metadata = thread.metadata | _stamps(run)
        busy = {"status": ThreadStatus.BUSY, "updated_at": run.updated_at, "metadata": metadata}
        parameters = values_of(thread) | busy | {"of_any_owner": new.of_any_owner}
        row = connection.execute(ENTER_THREAD[connection.dialect.name], parameters).one_or_none()
    if row is None:
        raise missing_thread(run.thread_id)
    return thread_from(row)


def _stamp(connection: Connection, thread: ThreadRecord, run: RunRecord) -> ThreadRecord:
    stamped = {**thread.metadata, **_stamps(run)}
    if stamped == thread.metadata:
        return thread
    parameters = {"thread": thread.thread_id, "stamped": stamped}
    return thread_from(connection.execute(STAMP_THREAD, parameters).one())


def _stamps(run: RunRecord) -> dict[str, Any]:
    """What user interfaces search threads by: the assistant of the newest run, and its graph."""
    stamps = {"assistant_id": run.assistant_id}
    if "graph_id" in run.metadata:
        stamps["graph_id"] = run.metadata["graph_id"]
    return stamps


def _move(connection: Connection, move: _Move) -> RunRecord:
    entering = {"run": move.run_id, "wanted": move.thread_status, "at": move.at, "count": len(move.events)}
    thread = connection.execute(MOVE_THREAD, entering).one_or_none()
    if thread is None:
        raise _missing_run(move.run_id)
    if move.events:
        _insert_events(connection, move, thread)
    if move.thread_metadata:
        merge_metadata(connection, thread.thread_id, move.thread_metadata, only_absent=True)
    row = _move_run(connection, move, thread.thread_id)
    if row.others_active:
        busy = {"thread": thread.thread_id, "wanted": ThreadStatus.BUSY}
        connection.execute(SET_THREAD_STATUS, busy)
    return run_from(row)


def _insert_events(connection: Connection, move: _Move, thread: Any) -> None:
    try:
        ids = (thread.thread_id, move.run_id)
        insert_events(connection, ids, move.events, last_seq=thread.event_seq)
    except IntegrityError as error:  # the run was deleted while its thread's lock was waited for
        raise _missing_run(move.run_id) from error


def _move_run(connection: Connection, move: _Move, thread_id: str) -> Any:
    parameters = {
        "run": move.run_id,
        "thread": thread_id,
        "its_error": move.error,
        "its_stop_reason": move.stop_reason,
        "host": move.host_id,
        "any_host": move.host_id is None,
        "at": move.at,
        "change": next_change(connection),
    }
    try:
        row = connection.execute(MOVE_RUN[move.status], parameters).one_or_none()
    except IntegrityError as error:
        raise ThreadBusyError(thread_id, f"run {move.run_id} has to wait") from error
    if row is not None:
        return row
    raise _refusal(move, _get(connection, move.run_id, None))


def _refusal(move: _Move, current: RunRecord | None) -> Exception:
    if current is None:
        return _missing_run(move.run_id)
    if move.host_id not in (None, current.host_id):
        return RunLostError(move.run_id)
    if current.status in statuses_before(move.status) and current.stop_requested is not None:
        return StopRequestedError(move.run_id, current.stop_requested)
    return IllegalRunMoveError(move.run_id, current.status, move.status)


def _get(connection: Connection, run_id: str, thread_id: str | None) -> RunRecord | None:
    statement = select(*RUN_COLUMNS).where(runs.c.run_id == run_id)
    if thread_id is not None:
        statement = statement.where(runs.c.thread_id == thread_id)
    row = connection.execute(statement).one_or_none()
    return None if row is None else run_from(row)


def _delete(
    connection: Connection, run: tuple[str, str], host_id: str | None, thread_status: ThreadStatus
) -> bool:
    thread_id, run_id = run
    of_thread = threads.c.thread_id == thread_id
    # The thread first, as everywhere: it is locked.
    connection.execute(update(threads).where(of_thread).values(updated_at=utc_now()))
    statement = delete(runs).where(runs.c.run_id == run_id, runs.c.thread_id == thread_id)
    if host_id is not None:
        statement = statement.where(runs.c.host_id == host_id)
    if connection.execute(statement).rowcount == 0:
        return False
    active = select(runs.c.run_id).where(runs.c.thread_id == thread_id, runs.c.status.in_(ACTIVE)).exists()
    idle = update(threads).where(of_thread, threads.c.status == ThreadStatus.BUSY, ~active)
    connection.execute(idle.values(status=thread_status))
    return True


def _missing_run(run_id: str) -> NotFoundError:
    return NotFoundError(f"there is no run {run_id}")
