"""`deerflow extensions install`, `upgrade` and `remove`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from deerflow.cli.extensions.shared import config_option, reported
from deerflow.kit import installing
from deerflow.kit.config_file import find_config_file
from deerflow.kit.installing import Place, Trust
from deerflow.kit.sources import Source, parse_source

_yes = click.option("--yes", is_flag=True, help="Trust the source without being asked.")


@click.command()
@click.argument("source")
@click.option("--use", help="The entry point, module:attribute, where the package declares several or none.")
@click.option("--disabled", is_flag=True, help="Do not enable it: its configuration is to be written first.")
@_yes
@config_option
@reported
def install(source: str, use: str | None, disabled: bool, yes: bool, config_path: Path | None) -> None:
    """Install an extension from SOURCE and add it to the configuration.

    SOURCE is a requirement (acme-audit>=1), a folder (./acme-audit), of which a copy is taken, or a public
    repository (https://example.org/acme/audit.git@v1).
    """
    parsed = parse_source(source)
    place = Place(find_config_file(config_path))
    receipt = installing.install(place, parsed, _asking(yes), use=use, enabled=not disabled)
    enabling = f"write its config, then: deerflow extensions enable {receipt.name}"
    click.echo(
        f"installed {receipt.name} {receipt.version} ({receipt.use}); "
        + (f"it is disabled: {enabling}" if disabled else "restart the host")
    )


@click.command()
@click.argument("name")
@click.option("--from", "source", help="Another source than before.")
@_yes
@config_option
@reported
def upgrade(name: str, source: str | None, yes: bool, config_path: Path | None) -> None:
    """Install the newest state of the extension NAME from where it came from."""
    place = Place(find_config_file(config_path))
    parsed = parse_source(source) if source is not None else None
    before, after = installing.upgrade(place, name, _asking(yes), source=parsed)
    if before is after or (before.version, before.digest) == (after.version, after.digest):
        click.echo(f"{name} is at the newest state of {after.source} ({after.version})")
    else:
        click.echo(f"upgraded {name} from {before.version} to {after.version}; restart the host")


@click.command()
@click.argument("name")
@config_option
@reported
def remove(name: str, config_path: Path | None) -> None:
    """Take the extension NAME out of the configuration, and its package away if a command installed it."""
    record, package = installing.remove(Place(find_config_file(config_path)), name)
    kept = record.text("package") if package is None else None
    left = f"; the package {kept} was not installed by command and stays" if kept else ""
    click.echo(f"removed {record.label}{left}; restart the host")


def _asking(yes: bool) -> Trust:
    def trust(source: Source) -> None:
        if yes:
            return
        click.echo(f"This installs {source.described}: its code runs with all rights of the host.", err=True)
        if not sys.stdin.isatty():
            raise click.UsageError("nobody is here to be asked; say --yes if you trust it")
        click.confirm("Do you trust it?", abort=True, err=True)

    return trust
