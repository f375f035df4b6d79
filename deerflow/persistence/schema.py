"""Whether a database's tables fit this release, and what is done where they do not."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from deerflow.persistence.engines import BUSY_TIMEOUT_SECONDS, build_postgres_engine, build_sqlite_engine
from deerflow.persistence.location import DatabaseLocation
from deerflow.persistence.tables import host_metadata


def prepare_schema(location: DatabaseLocation) -> None:
    """Make the schema of a database; nothing is done where it is there."""
    if location.backend == "memory":
        return
    if location.path is not None:
        location.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(location.path, timeout=BUSY_TIMEOUT_SECONDS)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
    engine = build_postgres_engine(location) if location.path is None else build_sqlite_engine(location)
    host_metadata.create_all(engine)
    engine.dispose()
