"""The ledger."""

import sqlalchemy as sa
from alembic import op

revision = "001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "acme_entries",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("task_id", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("outcome", sa.String, nullable=False),
        sa.Column("model_calls", sa.Integer, nullable=False),
    )
