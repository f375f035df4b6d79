"""The host's tables."""

from __future__ import annotations

import uuid
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    event,
    text,
)
from sqlalchemy.engine import Connection

from deerflow.persistence.columns import CleanText, JsonValue, UtcDateTime

host_metadata: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

threads: Final = Table(
    "threads",
    host_metadata,
    Column("thread_id", CleanText, primary_key=True),
    Column("user_id", CleanText),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("state_updated_at", UtcDateTime),
    Column("metadata", JsonValue(searchable=True), nullable=False),
    Column("config", JsonValue, nullable=False),
    Column("status", CleanText, nullable=False),
    # The last event number given out. Its row lock makes numbers rise in the order of commits.
    Column("event_seq", BigInteger, nullable=False, server_default=text("0")),
    Index(None, "user_id", "created_at"),
    Index(None, "user_id", "updated_at"),
)

# Only threads that do not last for ever have a row: what runs does not pay for it.
thread_ttls: Final = Table(
    "thread_ttls",
    host_metadata,
    Column("thread_id", CleanText, ForeignKey("threads.thread_id", ondelete="CASCADE"), primary_key=True),
    Column("minutes", Double, nullable=False),
    Column("strategy", CleanText, nullable=False),
    # When to look whether the thread has expired; not before.
    Column("due_at", UtcDateTime, nullable=False),
    Index(None, "due_at"),
)

# Expired threads that are gone, but for checkpoints and files: another host finishes what a dead one began.
thread_leftovers: Final = Table(
    "thread_leftovers",
    host_metadata,
    Column("thread_id", CleanText, primary_key=True),
    Column("due_at", UtcDateTime, nullable=False),
)

runs: Final = Table(
    "runs",
    host_metadata,
    Column("run_id", CleanText, primary_key=True),
    Column("thread_id", CleanText, ForeignKey("threads.thread_id", ondelete="CASCADE"), nullable=False),
    Column("assistant_id", CleanText, nullable=False),
    Column("user_id", CleanText),
    Column("status", CleanText, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("metadata", JsonValue(searchable=True), nullable=False),
    Column("kwargs", JsonValue, nullable=False),
    Column("multitask_strategy", CleanText, nullable=False),
    Column("error", CleanText),
    Column("stop_reason", CleanText),
    # Rises in the order of commits, over all threads: what readers of run evidence page by.
    Column("change_seq", BigInteger, nullable=False),
    # The host that has the run, how often hosts have begun it, and why it is to stop, once somebody asked.
    Column("host_id", CleanText),
    Column("attempt", Integer, nullable=False, server_default=text("0")),
    Column("stop_requested", CleanText),
    Index(None, "thread_id", "created_at"),
    Index(None, "change_seq"),
)

# Two processes may both believe that they may start a run: this index lets one of them win.
Index(
    "uq_runs_running",
    runs.c.thread_id,
    unique=True,
    sqlite_where=text("status = 'running'"),
    postgresql_where=text("status = 'running'"),
)
Index(
    "ix_runs_active",
    runs.c.created_at,
    sqlite_where=text("status IN ('pending', 'running')"),
    postgresql_where=text("status IN ('pending', 'running')"),
)

run_events: Final = Table(
    "run_events",
    host_metadata,
    Column("thread_id", CleanText, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("run_id", CleanText, ForeignKey("runs.run_id", ondelete="CASCADE"), nullable=False),
    Column("event_type", CleanText, nullable=False),
    Column("category", CleanText, nullable=False),
    Column("content", JsonValue),
    Column("metadata", JsonValue, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Index(None, "run_id", "seq"),
)

run_hosts: Final = Table(
    "run_hosts",
    host_metadata,
    Column("host_id", CleanText, primary_key=True),
    # NULL where a lock on a file shows that the host lives, and no clock is needed.
    Column("lease_until", UtcDateTime),
)

run_changes: Final = Table(
    "run_changes",
    host_metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    # Made with the database: a cursor that was issued by another one is told from ours.
    Column("database_id", CleanText, nullable=False),
    Column("last_change", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="single"),
)


def first_run_change() -> dict[str, Any]:
    """Return the only row of `run_changes`, as a new database begins with it."""
    return {"id": 1, "database_id": str(uuid.uuid4()), "last_change": 0}


@event.listens_for(run_changes, "after_create")
def _insert_first_change(table: Table, connection: Connection, **_: Any) -> None:
    connection.execute(table.insert(), first_run_change())
