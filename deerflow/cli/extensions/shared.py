"""What the extension commands share: their file, their tables, and which failures are wrong use."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from deerflow.kit.errors import WrongUseError

Command = TypeVar("Command", bound=Callable[..., Any])

config_option = click.option(
    "--config", "config_path", type=click.Path(path_type=Path), help="The configuration file."
)


def reported(command: Command) -> Command:
    """Turn `WrongUseError` into click's error for wrong use, which ends in status 2."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except WrongUseError as error:
            raise click.UsageError(str(error)) from error

    return run  # type: ignore[return-value]


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table, its columns as wide as they have to be."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
