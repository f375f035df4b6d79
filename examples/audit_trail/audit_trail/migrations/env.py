"""Runs the migrations on the connection that the service hands over, in its transaction."""

from __future__ import annotations

from alembic import context
from audit_trail.tables import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
)
with context.begin_transaction():
    context.run_migrations()
