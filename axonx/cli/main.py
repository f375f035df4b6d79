"""Parse, dispatch to one module per command, and turn failures into one line and an exit status."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from axonx import __version__
from axonx.cli.failures import exit_status, one_line

# A command's module is imported when it is run: `axonx --help` need not load the framework.
_COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("axonx.cli.run", "Run one Job, here or at a service."),
    "serve": ("axonx.cli.serve", "Serve the Jobs until a signal comes."),
    "exec": ("axonx.cli.exec_task", "Run one Task in this process."),
    "tasks": ("axonx.cli.tasks", "List Tasks and their runs; read logs, cancel, delete."),
    "plugins": ("axonx.cli.plugins", "List the installed plugins and check them."),
}
_OTHER_NAMES: Mapping[str, str] = {"start": "serve", "plugin": "plugins", "task": "tasks"}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = _COMMANDS.get(_OTHER_NAMES.get(cmd_name, cmd_name))
        if found is None:
            return None
        command: click.Command = importlib.import_module(found[0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=_LazyGroup)
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@click.version_option(__version__, prog_name="axonx")
def cli(debug: bool) -> None:
    """An asynchronous application framework of components, Jobs and Tasks.

    Exit status: 0, 1 for a failure, 2 for wrong use or a wrong configuration.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process with its exit status."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status."""
    debug = "--debug" in arguments[:1]
    try:
        return _status(cli.main(list(arguments), prog_name="axonx", standalone_mode=False))
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("Error: interrupted", err=True)
        return 130
    except BrokenPipeError:
        # Whoever read the output has gone, as `head` does: nothing is left to say, and nowhere to say it.
        sys.stderr.close()
        return 1
    except Exception as error:
        if debug:
            raise
        click.echo(f"Error: {one_line(error)}", err=True)
        return exit_status(error)


def _status(result: Any) -> int:
    return result if isinstance(result, int) else 0
