"""Threads, runs, their events, and the count of changes to runs."""

from __future__ import annotations

import uuid

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

MOMENT = sa.String(32).with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
PAYLOAD = sa.Text().with_variant(postgresql.JSON(), "postgresql")
SEARCHABLE = sa.Text().with_variant(postgresql.JSONB(), "postgresql")
RUNNING = sa.text("status = 'running'")
ACTIVE = sa.text("status IN ('pending', 'running')")


def upgrade() -> None:
    _create_threads()
    _create_runs()
    _create_run_events()
    _create_run_changes()


def downgrade() -> None:
    for name in ("run_changes", "run_events", "runs", "threads"):
        op.drop_table(name)


def _create_threads() -> None:
    op.create_table(
        "threads",
        sa.Column("thread_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text()),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.Column("state_updated_at", MOMENT),
        sa.Column("metadata", SEARCHABLE, nullable=False),
        sa.Column("config", PAYLOAD, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("event_seq", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("thread_id", name="pk_threads"),
    )
    op.create_index("ix_threads_user_id_created_at", "threads", ["user_id", "created_at"])
    op.create_index("ix_threads_user_id_updated_at", "threads", ["user_id", "updated_at"])


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("thread_id", sa.Text(), nullable=False),
        sa.Column("assistant_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text()),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.Column("metadata", SEARCHABLE, nullable=False),
        sa.Column("kwargs", PAYLOAD, nullable=False),
        sa.Column("multitask_strategy", sa.Text(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("stop_reason", sa.Text()),
        sa.Column("change_seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_runs"),
        sa.ForeignKeyConstraint(
            ["thread_id"], ["threads.thread_id"], name="fk_runs_thread_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_runs_thread_id_created_at", "runs", ["thread_id", "created_at"])
    op.create_index("ix_runs_change_seq", "runs", ["change_seq"])
    op.create_index(
        "uq_runs_running", "runs", ["thread_id"], unique=True, sqlite_where=RUNNING, postgresql_where=RUNNING
    )
    op.create_index("ix_runs_active", "runs", ["created_at"], sqlite_where=ACTIVE, postgresql_where=ACTIVE)


def _create_run_events() -> None:
    op.create_table(
        "run_events",
        sa.Column("thread_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("event_type", sa.Text(), nullable=False),
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("content", PAYLOAD),
        sa.Column("metadata", PAYLOAD, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("thread_id", "seq", name="pk_run_events"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_run_events_run_id", ondelete="CASCADE"),
    )
    op.create_index("ix_run_events_run_id_seq", "run_events", ["run_id", "seq"])


def _create_run_changes() -> None:
    table = op.create_table(
        "run_changes",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("database_id", sa.Text(), nullable=False),
        sa.Column("last_change", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_run_changes"),
        sa.CheckConstraint("id = 1", name=op.f("ck_run_changes_single")),
    )
    op.bulk_insert(table, [{"id": 1, "database_id": str(uuid.uuid4()), "last_change": 0}])
