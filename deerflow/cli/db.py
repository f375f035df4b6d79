"""`deerflow db`: bring the database to this release, and write migrations for it."""

from __future__ import annotations

from pathlib import Path

import click

from deerflow.config import AppConfig, load_config
from deerflow.errors import ConfigError
from deerflow.extensions import TablePrefixes
from deerflow.persistence import locate_database, upgrade_database
from deerflow.persistence.autogenerate import autogenerate


@click.group()
def command() -> None:
    """Look after the configured database."""


@command.command()
@click.option("--config", "config_path", type=click.Path(), help="The configuration file.")
def upgrade(config_path: str | None) -> None:
    """Bring the schema to this release; nothing to do is fine."""
    before, after = upgrade_database(locate_database(_with_database(config_path)))
    if before == after:
        click.echo(f"the database is at this release ({after})")
    else:
        click.echo(f"upgraded from {before or 'an empty database'} to {after}")


@command.command()
@click.option("--autogenerate", "automatic", is_flag=True, required=True, help="Compare models and database.")
@click.option("-m", "--message", required=True, help="What the revision does.")
@click.option(
    "--dir", "directory", type=click.Path(file_okay=False, path_type=Path), help="Where to write it."
)
@click.option("--config", "config_path", type=click.Path(), help="The configuration file.")
def revision(automatic: bool, message: str, directory: Path | None, config_path: str | None) -> None:
    """Write one migration file. Tables under a plugin's `table_prefix` are left alone."""
    config = _with_database(config_path)
    prefixes = TablePrefixes.declared_by(config.plugins)
    click.echo(autogenerate(config.database_url or "", message, directory, prefixes.prefixes))


def _with_database(config_path: str | None) -> AppConfig:
    config = load_config(config_path)
    if config.database_url is None:
        raise ConfigError("database.backend: memory keeps no database; set sqlite or postgres")
    return config
