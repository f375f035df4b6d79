"""A currency for each entry."""

import sqlalchemy as sa
from alembic import op

revision = "002"
down_revision = "001"


def upgrade() -> None:
    op.add_column("acme_entries", sa.Column("currency", sa.String, nullable=False, server_default="none"))
