"""Which host has a run, until when it counts as alive, and who is to stop."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

MOMENT = sa.String(32).with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    op.create_table(
        "run_hosts",
        sa.Column("host_id", sa.Text(), nullable=False),
        sa.Column("lease_until", MOMENT),
        sa.PrimaryKeyConstraint("host_id", name="pk_run_hosts"),
    )
    op.add_column("runs", sa.Column("host_id", sa.Text()))
    op.add_column("runs", sa.Column("attempt", sa.Integer(), server_default=sa.text("0"), nullable=False))
    op.add_column("runs", sa.Column("stop_requested", sa.Text()))


def downgrade() -> None:
    for name in ("stop_requested", "attempt", "host_id"):
        op.drop_column("runs", name)
    op.drop_table("run_hosts")
