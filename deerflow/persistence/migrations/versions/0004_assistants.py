"""Assistants, and all their versions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

MOMENT = sa.String(32).with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
PAYLOAD = sa.Text().with_variant(postgresql.JSON(), "postgresql")
SEARCHABLE = sa.Text().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "assistants",
        sa.Column("assistant_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text()),
        *_columns(),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("assistant_id", name="pk_assistants"),
    )
    op.create_index("ix_assistants_user_id_created_at", "assistants", ["user_id", "created_at"])
    op.create_table(
        "assistant_versions",
        sa.Column("assistant_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        *_columns(),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("assistant_id", "version", name="pk_assistant_versions"),
        sa.ForeignKeyConstraint(
            ["assistant_id"],
            ["assistants.assistant_id"],
            name="fk_assistant_versions_assistant_id",
            ondelete="CASCADE",
        ),
    )


def downgrade() -> None:
    for name in ("assistant_versions", "assistants"):
        op.drop_table(name)


def _columns() -> list[sa.Column[object]]:
    return [
        sa.Column("graph_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("config", PAYLOAD, nullable=False),
        sa.Column("context", PAYLOAD, nullable=False),
        sa.Column("metadata", SEARCHABLE, nullable=False),
    ]
