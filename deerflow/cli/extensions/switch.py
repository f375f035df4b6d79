"""`deerflow extensions enable` and `disable`."""

from __future__ import annotations

from pathlib import Path

import click

from deerflow.cli.extensions.shared import config_option, reported
from deerflow.kit.config_file import find_config_file
from deerflow.kit.plugin_edits import with_enabled


@click.command()
@click.argument("name")
@config_option
@reported
def enable(name: str, config_path: Path | None) -> None:
    """Let the host load the extension NAME when it starts again."""
    _switch(name, config_path, enabled=True)


@click.command()
@click.argument("name")
@config_option
@reported
def disable(name: str, config_path: Path | None) -> None:
    """Keep the extension NAME, but let the host start without it."""
    _switch(name, config_path, enabled=False)


def _switch(name: str, config_path: Path | None, *, enabled: bool) -> None:
    file = find_config_file(config_path)
    record = file.read().find(name)
    word = "enabled" if enabled else "disabled"
    if record.fields.get("enabled", True) is enabled:
        click.echo(f"{record.label} is {word} already")
        return
    file.edit(lambda plugins: with_enabled(plugins, plugins.find(name), enabled))
    click.echo(f"{word} {record.label}; restart the host")
