"""What happened in the runs of one database."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from deerflow.errors import NotFoundError
from deerflow.persistence.rows import event_from, insert_events, reserve_event_seqs
from deerflow.persistence.tables import run_events
from deerflow.persistence.transactions import Transactions
from deerflow.runs.record import NewRunEvent, StoredRunEvent


class SqlRunEventStore:
    """Events in SQL; the contract stands in `deerflow.runs.stores.RunEventStore`."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def append(
        self, thread_id: str, run_id: str, events: Sequence[NewRunEvent], *, host_id: str | None = None
    ) -> None:
        kept = tuple(events)
        run = (thread_id, run_id)
        if kept:
            await self._transactions.write(lambda connection: _append(connection, run, kept, host_id))

    async def list(
        self, thread_id: str, run_id: str, *, after_seq: int | None = None, limit: int = 1000
    ) -> builtins.list[StoredRunEvent]:
        return await self._transactions.read(
            lambda connection: list_events(connection, (thread_id, run_id), after_seq or 0, limit)
        )


def _append(
    connection: Connection, run: tuple[str, str], events: Sequence[NewRunEvent], host_id: str | None
) -> None:
    last_seq = reserve_event_seqs(connection, run, len(events), host_id=host_id)
    if last_seq is None:
        raise _missing(run, host_id)
    try:
        insert_events(connection, run, events, last_seq=last_seq)
    except IntegrityError as error:  # deleted while the thread's lock was waited for
        raise _missing(run, host_id) from error


def _missing(run: tuple[str, str], host_id: str | None) -> NotFoundError:
    of_host = "" if host_id is None else f", or host {host_id} does not have it"
    return NotFoundError(f"there is no run {run[1]} on thread {run[0]}{of_host}")


def list_events(
    connection: Connection, run: tuple[str, str], after_seq: int, limit: int
) -> builtins.list[StoredRunEvent]:
    """Return the events of `run` (thread id, run id) after a number, in order."""
    thread_id, run_id = run
    statement = (
        select(run_events)
        .where(
            run_events.c.run_id == run_id,
            run_events.c.thread_id == thread_id,
            run_events.c.seq > after_seq,
        )
        .order_by(run_events.c.seq)
        .limit(limit)
    )
    return [event_from(row) for row in connection.execute(statement)]
