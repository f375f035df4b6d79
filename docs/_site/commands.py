"""What `--help` says of every command."""

from __future__ import annotations

from collections.abc import Iterator

import click

from axonx.cli.main import cli as axonx
from deerflow.cli.main import cli as deerflow

_WIDTH = 100


def markdown() -> str:
    """A section for each command, groups before what belongs to them."""
    return "\n".join(line for name, command in COMMANDS.items() for line in _sections(name, command, None))


COMMANDS: dict[str, click.Command] = {"deerflow": deerflow, "axonx": axonx}


def _sections(name: str, command: click.Command, parent: click.Context | None) -> Iterator[str]:
    context = click.Context(
        command, info_name=name, parent=parent, max_content_width=_WIDTH, terminal_width=_WIDTH
    )
    yield from (f"## {context.command_path}", "", "```text", command.get_help(context), "```", "")
    if isinstance(command, click.Group):
        for child_name in command.list_commands(context):
            child = command.get_command(context, child_name)
            assert child is not None, f"{context.command_path} {child_name} cannot be imported"
            yield from _sections(child_name, child, context)
