"""`deerflow extensions check`: what would the host say?"""

from __future__ import annotations

from pathlib import Path

import click

from deerflow.cli.extensions.failures import reported
from deerflow.kit.check import check_config


@click.command()
@click.option("--config", "config_path", type=click.Path(path_type=Path), help="The configuration file.")
@click.pass_context
@reported
def check(ctx: click.Context, config_path: Path | None) -> None:
    """Load the configured extensions into a registry that is thrown away, and say what would happen.

    Their code is run; nothing of the host is. Status 1 where the host would not start, or lose something.
    """
    report = check_config(config_path)
    for line in report.lines():
        click.echo(line)
    if not report.ok:
        count = report.error_count + len(report.problems)
        click.echo(f"deerflow: {report.source}: {count} error{'' if count == 1 else 's'}", err=True)
        ctx.exit(1)
