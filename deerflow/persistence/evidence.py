"""The read-only view of runs and their events that extensions get."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Any, Final

from deerflow_extension_api import (
    InvalidRunEvidenceCursor,
    RunEventPage,
    RunEventView,
    RunEvidenceReader,
    RunPage,
    RunStatusView,
)
from sqlalchemy import bindparam, select
from sqlalchemy.engine import Connection

from deerflow.persistence.events import list_events
from deerflow.persistence.tables import run_changes, runs
from deerflow.persistence.transactions import Transactions
from deerflow.runs.record import StoredRunEvent

MAX_LIMIT: Final = 2000
_CURSOR_FORM: Final = "1"

_VIEW_COLUMNS: Final = (
    runs.c.thread_id,
    runs.c.run_id,
    runs.c.status,
    runs.c.created_at,
    runs.c.updated_at,
    runs.c.error,
    runs.c.stop_reason,
)
_SELECT_COUNTER: Final = select(run_changes.c.database_id, run_changes.c.last_change)
_SELECT_CHANGED: Final = (
    select(runs.c.change_seq, *_VIEW_COLUMNS)
    .where(runs.c.change_seq > bindparam("after"))
    .order_by(runs.c.change_seq)
    .limit(bindparam("count"))
)
_SELECT_STATUS: Final = select(*_VIEW_COLUMNS).where(
    runs.c.run_id == bindparam("run"), runs.c.thread_id == bindparam("thread")
)


class DatabaseRunEvidenceReader(RunEvidenceReader):
    """Pages through a database's runs in the order of their last change.

    A run's change gets its number under a lock that is held until the change is committed, so nothing that
    is behind a cursor appears later. A cursor is good for the database that it came from, across restarts.
    """

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def list_changed_runs(self, *, cursor: str | None, limit: int) -> RunPage:
        count = _checked_limit(limit)
        if cursor is not None and not isinstance(cursor, str):
            raise InvalidRunEvidenceCursor("cursor must be one that this reader returned, or None")
        return await self._transactions.read(lambda connection: _changed_runs(connection, cursor, count))

    async def list_run_events(
        self, *, thread_id: str, run_id: str, after_seq: int | None, limit: int
    ) -> RunEventPage:
        count = _checked_limit(limit)
        after = _checked_after(after_seq)
        found = await self._transactions.read(
            lambda connection: list_events(connection, (thread_id, run_id), after or 0, count + 1)
        )
        items = tuple(_event_view(stored) for stored in found[:count])
        next_after_seq = items[-1].seq if items else after
        return RunEventPage(items=items, next_after_seq=next_after_seq, has_more=len(found) > count)

    async def get_run_status(self, *, thread_id: str, run_id: str) -> RunStatusView | None:
        parameters = {"run": run_id, "thread": thread_id}
        row = await self._transactions.read(
            lambda connection: connection.execute(_SELECT_STATUS, parameters).one_or_none()
        )
        return None if row is None else _status_view(row)


def _changed_runs(connection: Connection, cursor: str | None, count: int) -> RunPage:
    # The counter is read first: what is returned may be newer than it, never older.
    database_id, last_change = connection.execute(_SELECT_COUNTER).one()
    after = 0 if cursor is None else _position_of(cursor, database_id, last_change)
    rows = connection.execute(_SELECT_CHANGED, {"after": after, "count": count + 1}).all()
    page = rows[:count]
    next_cursor = _cursor_at(page[-1].change_seq, database_id) if page else cursor
    return RunPage(
        items=tuple(_status_view(row) for row in page), next_cursor=next_cursor, has_more=len(rows) > count
    )


def _cursor_at(position: int, database_id: str) -> str:
    text = f"{_CURSOR_FORM}:{position}:{_signature(position, database_id)}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _position_of(cursor: str, database_id: str, last_change: int) -> int:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        form, number, signature = base64.b64decode(padded, altchars=b"-_", validate=True).decode().split(":")
        position = int(number)
    except (ValueError, binascii.Error) as error:
        raise InvalidRunEvidenceCursor("cursor is malformed: pass one that this reader returned") from error
    if form != _CURSOR_FORM:
        raise InvalidRunEvidenceCursor(f"cursor has the form {form[:10]!r}; supported: {_CURSOR_FORM!r}")
    if not hmac.compare_digest(signature.encode(), _signature(position, database_id).encode()):
        raise InvalidRunEvidenceCursor("cursor belongs to another database: begin again with cursor=None")
    if position > last_change:
        raise InvalidRunEvidenceCursor(
            "cursor is ahead of this database, which was restored from a copy: begin again with cursor=None"
        )
    return position


def _signature(position: int, database_id: str) -> str:
    """Bind a position to this listing of this database; it guards against mistakes, not against forgery."""
    return hashlib.sha256(f"changed-runs:{database_id}:{position}".encode()).hexdigest()[:16]


def _checked_limit(limit: int) -> int:
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_LIMIT:
        raise ValueError(f"limit must be a whole number from 1 to {MAX_LIMIT}, not {limit!r}")
    return limit


def _checked_after(after_seq: int | None) -> int | None:
    if after_seq is None:
        return None
    if not isinstance(after_seq, int) or isinstance(after_seq, bool) or after_seq < 0:
        raise ValueError(f"after_seq must be None or a whole number from 0, not {after_seq!r}")
    return after_seq


def _status_view(row: Any) -> RunStatusView:
    return RunStatusView(
        thread_id=row.thread_id,
        run_id=row.run_id,
        status=row.status,
        created_at=row.created_at.isoformat(),
        updated_at=row.updated_at.isoformat(),
        error=row.error,
        stop_reason=row.stop_reason,
    )


def _event_view(stored: StoredRunEvent) -> RunEventView:
    event = stored.event
    return RunEventView(
        thread_id=stored.thread_id,
        run_id=stored.run_id,
        seq=stored.seq,
        event_type=event.event_type,
        category=event.category,
        content=event.content,
        metadata=event.metadata,
        created_at=event.created_at.isoformat(),
    )
