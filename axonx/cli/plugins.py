"""`axonx plugins`: what is installed, what it brings, and what is wrong with it."""

from __future__ import annotations

import click

from axonx.errors import ConfigurationError
from axonx.plugins.listing import PluginReport, plugin_reports


@click.group("plugins")
def command() -> None:
    """List the installed plugins and check them."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each plugin.")
def list_plugins(as_json: bool) -> None:
    """Name, version, and `ok` or what cannot be used, of each plugin."""
    for report in plugin_reports():
        if as_json:
            click.echo(report.model_dump_json())
        else:
            click.echo("\t".join((report.name, report.version, _state(report))))


@command.command("show")
@click.argument("name")
def show(name: str) -> None:
    """One plugin and everything that it brings, as JSON."""
    reports = plugin_reports()
    found = [report for report in reports if report.name == name]
    if not found:
        known = ", ".join(report.name for report in reports) or "none"
        raise ConfigurationError(f"Unknown plugin: {name!r} (installed: {known})")
    for report in found:
        click.echo(report.model_dump_json(indent=2))


def _state(report: PluginReport) -> str:
    if not report.problems:
        return "ok"
    return "broken: " + " ".join("; ".join(report.problems).split())
