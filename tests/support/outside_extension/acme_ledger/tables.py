"""The tables of this extension, under a metadata and a migration chain of its own."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Column, Connection, Integer, MetaData, String, Table

metadata = MetaData()

entries = Table(
    "acme_entries",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("task_id", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("outcome", String, nullable=False),
    Column("model_calls", Integer, nullable=False),
    Column("currency", String, nullable=False),
)


def upgrade(connection: Connection) -> None:
    """Bring the tables to this version; nothing to do is fine."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
