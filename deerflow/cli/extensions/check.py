"""`deerflow extensions check`: what would the host say?"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from deerflow.cli.extensions.shared import config_option, reported
from deerflow.kit.check import check_config


@click.command()
@config_option
@click.option("--json", "as_json", is_flag=True, help="Write the report as one line of JSON.")
@click.pass_context
@reported
def check(ctx: click.Context, config_path: Path | None, as_json: bool) -> None:
    """Load the configured extensions into a registry that is thrown away, and say what would happen.

    Their code is run; nothing of the host is. Status 1 where the host would not start, or lose something.
    """
    report = check_config(config_path)
    for line in [json.dumps(asdict(report))] if as_json else report.lines():
        click.echo(line)
    if not report.ok:
        count = report.error_count + len(report.problems)
        click.echo(f"deerflow: {report.source}: {count} error{'' if count == 1 else 's'}", err=True)
        ctx.exit(1)
