"""The commands of `deerflow extensions`, one module each."""

from __future__ import annotations

import importlib
from typing import Final

import click

# A command's module is imported when it is asked for: only `check` needs LangGraph.
_COMMANDS: Final = {
    "list": "overview:list_extensions",
    "check": "check:check",
    "stats": "stats:stats",
    "new": "new:new",
    "install": "install:install",
    "upgrade": "install:upgrade",
    "enable": "switch:enable",
    "disable": "switch:disable",
    "remove": "install:remove",
}


class _Group(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name].partition(":")
        found: click.Command = getattr(
            importlib.import_module(f"deerflow.cli.extensions.{module}"), attribute
        )
        return found


@click.group(cls=_Group)
def command() -> None:
    """Write, check, install, switch and watch extensions."""
