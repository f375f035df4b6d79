"""What a new migration should do, proposed by Alembic without a look at what belongs to others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from alembic import command
from alembic.util.exc import CommandError
from sqlalchemy.schema import SchemaItem

from deerflow.persistence.engines import build_migration_engine
from deerflow.persistence.errors import SchemaError
from deerflow.persistence.location import locate_url
from deerflow.persistence.schema import LANGGRAPH_TABLES
from deerflow.persistence.upgrade import MIGRATIONS, alembic_config

LANGGRAPH_TABLES_LOWER: Final = frozenset(name.lower() for name in LANGGRAPH_TABLES)


class Ownership:
    """Tells what in a database is the host's: all but LangGraph's tables and what has a prefix."""

    def __init__(self, table_prefixes: Iterable[str]) -> None:
        self._prefixes = tuple(prefix.lower() for prefix in table_prefixes)

    def include_name(self, name: str | None, kind: str, parents: Mapping[str, Any]) -> bool:
        """Leave foreign tables out before they are looked into, with all their indexes and constraints."""
        return kind != "table" or name is None or not self._is_foreign_table(name)

    def include_object(
        self, item: SchemaItem, name: str | None, kind: str, reflected: bool, counterpart: SchemaItem | None
    ) -> bool:
        """Leave out what an extension added to a table of the host; what the models name is the host's."""
        return not (reflected and counterpart is None and name is not None and self._has_prefix(name))

    def _is_foreign_table(self, name: str) -> bool:
        return name.lower() in LANGGRAPH_TABLES_LOWER or self._has_prefix(name)

    def _has_prefix(self, name: str) -> bool:
        return name.lower().startswith(self._prefixes)


def autogenerate(
    database_url: str, message: str, directory: Path | None = None, table_prefixes: Iterable[str] = ()
) -> Path:
    """Write one migration that leads from a database to the host's tables, and return its path.

    It goes into the package's own versions folder, or into `directory`. Raises `SchemaError` where the
    database is not at this release's newest revision.
    """
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        directory = directory.resolve()
    location = locate_url(database_url)
    engine = build_migration_engine(location)
    try:
        with engine.connect() as connection:
            config = alembic_config(connection, versions=directory, ownership=Ownership(table_prefixes))
            target = directory or MIGRATIONS / "versions"
            script = command.revision(config, message, autogenerate=True, version_path=target)
    except CommandError as error:
        raise SchemaError(f"no migration was written for {location}: {error}") from error
    finally:
        engine.dispose()
    assert script is not None and not isinstance(script, list), "one revision was asked for"
    return Path(script.path)
