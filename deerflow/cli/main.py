"""Parse, dispatch to one module per command, and turn failures into one line and an exit status."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import click

from deerflow.errors import DeerFlowError

# A command's module is imported when it is asked for: `deerflow --help` need not load LangGraph.
_COMMANDS = {
    "demo": "deerflow.cli.demo",
    "chat": "deerflow.cli.chat",
    "serve": "deerflow.cli.serve",
    "db": "deerflow.cli.db",
    "extensions": "deerflow.cli.extensions",
    "users": "deerflow.cli.users",
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _COMMANDS.get(cmd_name)
        return None if module is None else importlib.import_module(module).command


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@click.version_option(package_name="deerflow")
def cli(debug: bool) -> None:
    """An agent host on LangGraph with extensions around every run."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: exit status 0, 1 for a failure, 2 for wrong use."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status."""
    debug = "--debug" in arguments[:1]
    try:
        return _status(cli.main(list(arguments), prog_name="deerflow", standalone_mode=False))
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.UsageError as error:
        return _say(error.format_message(), 2)
    except (click.Abort, KeyboardInterrupt):
        return _say("stopped", 130)
    except BrokenPipeError:
        # Whoever read the output has gone, as `head` does: nothing is left to say, and nowhere to say it.
        sys.stderr.close()
        return 1
    except (DeerFlowError, click.ClickException, OSError) as error:
        if debug:
            raise
        return _say(_told(error), 1)
    except Exception as error:
        if debug:
            raise
        return _say(f"{type(error).__name__}: {error} (run again as `deerflow --debug ...`)", 1)


def _status(result: Any) -> int:
    return result if isinstance(result, int) else 0


def _told(error: Exception) -> str:
    """The text of an error; of an extension that keeps the host from starting also what it said itself."""
    text, reason = str(error), getattr(error, "reason", "")
    return f"{text}: {reason}" if reason and reason not in text else text


def _say(text: str, status: int) -> int:
    click.echo(f"deerflow: {text}", err=True)
    return status
