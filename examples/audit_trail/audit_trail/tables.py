"""The tables of the trail, under a metadata and a chain of migrations of their own."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import BigInteger, Column, Connection, Index, Integer, MetaData, String, Table, Text, text

VERSION_TABLE = "audit_alembic_version"
_MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK_KEY = 0x61756469  # any number that no other program locks

metadata = MetaData()

entries = Table(
    "audit_entries",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at", String(32), nullable=False),
    Column("event", String(32), nullable=False),
    Column("run_id", Text, nullable=False),
    Column("thread_id", Text, nullable=False),
    Column("task_id", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("previous", String(64), nullable=False),
    Column("digest", String(64), nullable=False),
    Index("audit_entries_by_run", "run_id", "seq"),
)

head = Table(
    "audit_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
)


def upgrade(connection: Connection) -> None:
    """Bring the tables to this version, in the caller's transaction; nothing to do is fine."""
    _wait_for_others(connection)
    config = Config(cmd_opts=Namespace(quiet=True))
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _wait_for_others(connection: Connection) -> None:
    """Let one process after the other upgrade: several may start at once."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
    else:  # on SQLite the first statement that writes takes the lock of the file
        column = "version_num VARCHAR(32) NOT NULL PRIMARY KEY"
        connection.execute(text(f"CREATE TABLE IF NOT EXISTS {VERSION_TABLE} ({column})"))
