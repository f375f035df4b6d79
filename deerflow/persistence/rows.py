"""Between rows and records, and the two counters that put changes and events in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Boolean, bindparam, insert, or_, select, update
from sqlalchemy.engine import Connection, Row

from deerflow.persistence.tables import run_changes, run_events, runs, threads
from deerflow.runs.record import (
    NewRunEvent,
    RunRecord,
    RunStatus,
    StoredRunEvent,
    ThreadRecord,
    ThreadStatus,
)

THREAD_COLUMNS = tuple(column for column in threads.c if column is not threads.c.event_seq)
RUN_COLUMNS = tuple(column for column in runs.c if column is not runs.c.change_seq)

_RESERVE_EVENT_SEQS = (
    update(threads)
    .where(
        threads.c.thread_id == bindparam("thread"),
        select(runs.c.run_id)
        .where(
            runs.c.run_id == bindparam("run"),
            runs.c.thread_id == bindparam("thread"),
            or_(bindparam("any_host", type_=Boolean), runs.c.host_id == bindparam("host")),
        )
        .exists(),
    )
    .values(event_seq=threads.c.event_seq + bindparam("count"))
    .returning(threads.c.event_seq)
)
_NEXT_CHANGE = (
    update(run_changes).values(last_change=run_changes.c.last_change + 1).returning(run_changes.c.last_change)
)
_INSERT_EVENTS = insert(run_events)


def thread_from(row: Row[Any]) -> ThreadRecord:
    """Return the record of a row that has `THREAD_COLUMNS`."""
    values = {column.name: row._mapping[column.name] for column in THREAD_COLUMNS}
    values["status"] = ThreadStatus(values["status"])
    return ThreadRecord(**values)


def run_from(row: Row[Any]) -> RunRecord:
    """Return the record of a row that has `RUN_COLUMNS`."""
    values = {column.name: row._mapping[column.name] for column in RUN_COLUMNS}
    values["status"] = RunStatus(values["status"])
    return RunRecord(**values)


def event_from(row: Row[Any]) -> StoredRunEvent:
    """Return the record of a row of `run_events`."""
    values = row._mapping
    event = NewRunEvent(
        event_type=values["event_type"],
        category=values["category"],
        content=values["content"],
        metadata=values["metadata"],
        created_at=values["created_at"],
    )
    return StoredRunEvent(values["thread_id"], values["run_id"], values["seq"], event)


def values_of(record: ThreadRecord | RunRecord) -> dict[str, Any]:
    """Return the columns of a record."""
    return dict(vars(record))


def next_change(connection: Connection) -> int:
    """Return the next number of a change to a run.

    The row's lock is held until the transaction commits, so numbers become visible in their order and a
    reader that has passed one never meets a lower one later. Ask for it last: every change to a run waits.
    """
    number: int = connection.execute(_NEXT_CHANGE).scalar_one()
    return number


def reserve_event_seqs(
    connection: Connection, run: tuple[str, str], count: int, *, host_id: str | None
) -> int | None:
    """Return the last of `count` new event numbers of the thread of `run` (thread id, run id).

    `None` where there is no such run, or `host_id` is named and does not have it.
    """
    thread_id, run_id = run
    parameters = {"thread": thread_id, "run": run_id, "count": count}
    parameters |= {"host": host_id, "any_host": host_id is None}
    return connection.execute(_RESERVE_EVENT_SEQS, parameters).scalar_one_or_none()


def insert_events(
    connection: Connection, run: tuple[str, str], events: Sequence[NewRunEvent], *, last_seq: int
) -> None:
    """Keep events of `run` (thread id, run id) under the numbers that end with `last_seq`."""
    thread_id, run_id = run
    first_seq = last_seq - len(events) + 1
    rows = [
        {"thread_id": thread_id, "run_id": run_id, "seq": first_seq + position, **vars(event)}
        for position, event in enumerate(events)
    ]
    connection.execute(_INSERT_EVENTS, rows)
