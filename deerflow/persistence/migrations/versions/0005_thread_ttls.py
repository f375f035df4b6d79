"""How long threads last that nobody uses, and those of which not everything is removed yet."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

MOMENT = sa.String(32).with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    op.create_table(
        "thread_ttls",
        sa.Column("thread_id", sa.Text(), nullable=False),
        sa.Column("minutes", sa.Double(), nullable=False),
        sa.Column("strategy", sa.Text(), nullable=False),
        sa.Column("due_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("thread_id", name="pk_thread_ttls"),
        sa.ForeignKeyConstraint(
            ["thread_id"], ["threads.thread_id"], name="fk_thread_ttls_thread_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_thread_ttls_due_at", "thread_ttls", ["due_at"])
    op.create_table(
        "thread_leftovers",
        sa.Column("thread_id", sa.Text(), nullable=False),
        sa.Column("due_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("thread_id", name="pk_thread_leftovers"),
    )


def downgrade() -> None:
    for name in ("thread_leftovers", "thread_ttls"):
        op.drop_table(name)
