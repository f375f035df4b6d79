"""Whether a database's tables fit this release, and what is done where they do not."""

from __future__ import annotations

import importlib
from typing import Any, Final

from sqlalchemy import Column, MetaData, PrimaryKeyConstraint, String, Table, insert, inspect, select
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import OperationalError

from deerflow.persistence.engines import build_migration_engine, build_sqlite_engine
from deerflow.persistence.errors import DatabaseUnavailableError, NewerReleaseError, SchemaError
from deerflow.persistence.location import DatabaseLocation
from deerflow.persistence.locks import prepare_sqlite_file, schema_lock
from deerflow.persistence.tables import host_metadata

HEAD_REVISION: Final = "0005"
"""The newest file in migrations/versions; a test compares. Known here so that most starts need no Alembic."""

LANGGRAPH_TABLES: Final = frozenset(
    {
        *("checkpoints", "writes", "checkpoint_blobs", "checkpoint_writes", "checkpoint_migrations"),
        *("store", "store_migrations", "store_vectors", "vector_migrations"),
    }
)
"""What LangGraph's checkpointers and stores create, on SQLite and PostgreSQL."""

_versions: Final = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
VERSION_TABLE: Final = _versions.name


def host_table_names() -> frozenset[str]:
    """Return the names of all tables that are the host's: its own, Alembic's and LangGraph's."""
    return frozenset(host_metadata.tables) | LANGGRAPH_TABLES | {VERSION_TABLE}


def create_schema(connection: Connection) -> None:
    """Make all tables in an empty database, as the migrations would (a test compares), without Alembic."""
    host_metadata.create_all(connection, checkfirst=False)
    _versions.create(connection)
    connection.execute(insert(_versions), {"version_num": HEAD_REVISION})


def prepare_schema(location: DatabaseLocation) -> None:
    """Bring a SQLite file, or an empty PostgreSQL database, to this release; the first of several does it.

    A PostgreSQL database with tables of an older release is left alone: other hosts may be working on it.
    Raises `SchemaError` there, and for tables of a newer release.
    """
    if location.path is not None:
        prepare_sqlite_file(location.path)
    if _revision(location) == HEAD_REVISION:
        return
    with schema_lock(location):
        revision = _revision(location)
        if location.backend == "postgres" and revision not in (None, HEAD_REVISION):
            raise _behind(location, revision)
        _bring_up(location, revision)


def upgrade_database(location: DatabaseLocation) -> tuple[str | None, str]:
    """Bring a database to this release, whatever it is; return its revision before (if any) and after.

    Raises `SchemaError` for tables of a newer release.
    """
    if location.path is not None:
        prepare_sqlite_file(location.path)
    with schema_lock(location):
        before = _revision(location)
        _bring_up(location, before)
    return before, HEAD_REVISION


def _bring_up(location: DatabaseLocation, revision: str | None) -> None:
    if revision == HEAD_REVISION:
        return
    engine = build_migration_engine(location)
    try:
        if revision is not None:
            _alembic().upgrade(engine, location)
            return
        with engine.begin() as connection:
            _create(connection, location)
    finally:
        engine.dispose()


def _revision(location: DatabaseLocation) -> str | None:
    engine: Engine
    if location.path is not None:
        engine = build_sqlite_engine(location, read_only=True)  # looking takes no lock
    else:
        engine = build_migration_engine(location)
    try:
        with engine.connect() as connection:
            return _read_revision(connection)
    except OperationalError as error:
        raise DatabaseUnavailableError(f"database {location} does not answer: {error.orig}") from error
    finally:
        engine.dispose()


def _read_revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    revision: str | None = connection.execute(select(_versions.c.version_num)).scalar_one_or_none()
    return revision


def _create(connection: Connection, location: DatabaseLocation) -> None:
    strangers = sorted(set(inspect(connection).get_table_names()) & set(host_metadata.tables))
    if strangers:
        raise SchemaError(
            f"database {location} has tables named {', '.join(strangers)} that this host did not make: "
            "name another database in database.url"
        )
    create_schema(connection)


def _behind(location: DatabaseLocation, revision: str | None) -> SchemaError:
    if revision is None or not _alembic().knows(revision):
        return NewerReleaseError(location, str(revision))
    return SchemaError(
        f"database {location} is at revision {revision}, this release needs {HEAD_REVISION}: "
        "stop every host that uses it and run `deerflow db upgrade`"
    )


def _alembic() -> Any:
    # Alembic takes a third of a second to import, and most starts find the schema as it should be.
    return importlib.import_module("deerflow.persistence.upgrade")
