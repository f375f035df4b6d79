from acme_ledger.tables import metadata
from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table="acme_alembic_version",
)
with context.begin_transaction():
    context.run_migrations()
