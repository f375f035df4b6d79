"""How Alembic runs the host's migrations: on the connection it is given, in one transaction."""

from __future__ import annotations

from alembic import context

from deerflow.persistence.schema import VERSION_TABLE
from deerflow.persistence.tables import host_metadata

attributes = context.config.attributes
ownership = attributes.get("ownership")

context.configure(
    connection=attributes["connection"],
    target_metadata=host_metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,
    transactional_ddl=True,
    include_name=ownership and ownership.include_name,
    include_object=ownership and ownership.include_object,
)
with context.begin_transaction():
    context.run_migrations()
