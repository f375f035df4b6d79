"""`deerflow extensions new`: begin an extension."""

from __future__ import annotations

import importlib.util
import shlex
from pathlib import Path

import click

from deerflow.cli.extensions.shared import reported
from deerflow.kit.scaffold import KIND_NAMES, write_extension


@click.command()
@click.argument("name")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(KIND_NAMES),
    help="What it contributes; may be given several times. Default: one of each.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    default=Path(),
    help="Where its folder is made; default here.",
)
@reported
def new(name: str, kinds: tuple[str, ...], directory: Path) -> None:
    """Write the extension NAME (such as acme-audit) into a new folder. Its tests pass at once."""
    folder = write_extension(name, kinds or KIND_NAMES, directory)
    place = shlex.quote(str(folder) if "/" in str(folder) else f"./{folder}")
    click.echo(f"wrote {folder}")
    has_pytest = importlib.util.find_spec("pytest") is not None
    click.echo(f"test it:     {'' if has_pytest else 'pip install pytest && '}python -m pytest {place}")
    click.echo(f"install it:  deerflow extensions install {place}")
