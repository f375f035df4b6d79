"""The host's migrations, run by Alembic."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any, Final

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy.engine import Connection, Engine

from deerflow.persistence.errors import NewerReleaseError, SchemaError
from deerflow.persistence.location import DatabaseLocation

MIGRATIONS: Final = Path(__file__).parent / "migrations"


def alembic_config(connection: Connection, *, versions: Path | None = None, **attributes: Any) -> Config:
    """Return Alembic's configuration for one connection; `versions` is a second folder of revisions."""
    config = _scripts(versions)
    config.attributes.update(connection=connection, **attributes)
    return config


def upgrade(engine: Engine, location: DatabaseLocation) -> None:
    """Run every migration that the database lacks, all in one transaction, under the caller's schema lock."""
    with engine.begin() as connection:
        try:
            command.upgrade(alembic_config(connection), "head")
        except CommandError as error:
            revision = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one()
            raise NewerReleaseError(location, revision) from error
        _check_references(connection)


def knows(revision: str) -> bool:
    """Tell whether this release has a migration of that name."""
    scripts = ScriptDirectory.from_config(_scripts())
    return any(script.revision == revision for script in scripts.walk_revisions())


def _scripts(versions: Path | None = None) -> Config:
    folders = [MIGRATIONS / "versions", *([versions] if versions is not None else [])]
    config = Config(cmd_opts=Namespace(quiet=True))  # what it did is told by its caller
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", "\n".join(map(str, folders)).replace("%", "%%"))
    return config


def _check_references(connection: Connection) -> None:
    """On SQLite references are off while tables are rebuilt; look at them before the commit."""
    if connection.dialect.name != "sqlite":
        return
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
    if broken:
        raise SchemaError(f"the migration would leave {len(broken)} rows without what they refer to")
