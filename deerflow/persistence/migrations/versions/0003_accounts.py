"""Users, their tokens, and the sessions that they open with a password."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

MOMENT = sa.String(32).with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    _create_users()
    _create_tokens()
    _create_login_sessions()


def downgrade() -> None:
    for name in ("login_sessions", "tokens", "users"):
        op.drop_table(name)


def _create_users() -> None:
    op.create_table(
        "users",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("is_admin", sa.Boolean(), nullable=False),
        sa.Column("password_hash", sa.Text()),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("revoked_at", MOMENT),
        sa.PrimaryKeyConstraint("name", name="pk_users"),
    )


def _create_tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("is_admin", sa.Boolean(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name="pk_tokens"),
        sa.ForeignKeyConstraint(
            ["user_name"], ["users.name"], name="fk_tokens_user_name", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_tokens_user_name_created_at", "tokens", ["user_name", "created_at"])
    op.create_index("uq_tokens_token_id", "tokens", ["token_id"], unique=True)


def _create_login_sessions() -> None:
    op.create_table(
        "login_sessions",
        sa.Column("session_hash", sa.Text(), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("session_hash", name="pk_login_sessions"),
        sa.ForeignKeyConstraint(
            ["user_name"], ["users.name"], name="fk_login_sessions_user_name", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_login_sessions_user_name", "login_sessions", ["user_name"])
    op.create_index("ix_login_sessions_expires_at", "login_sessions", ["expires_at"])
