"""`deerflow extensions list`: what is configured, what is installed. Nothing is imported."""

from __future__ import annotations

from pathlib import Path

import click

from deerflow.cli.extensions.shared import config_option, reported, table
from deerflow.kit.config_file import find_config_file
from deerflow.kit.environment import declared_extensions, installed_distribution
from deerflow.kit.plugin_records import PluginRecord
from deerflow.kit.receipts import ReceiptStore

_TITLES = ("NAME", "STATE", "ENTRY POINT", "PACKAGE", "SOURCE")


@click.command(name="list")
@config_option
@reported
def list_extensions(config_path: Path | None) -> None:
    """List the configured extensions in the order of loading, then installed ones without a record."""
    file = find_config_file(config_path)
    records = file.read().records
    receipts = ReceiptStore()
    rows = [_row(record, receipts) for record in records]
    used = {record.text("use") for record in records}
    rows += [
        (name, "available", use, f"{name} {version}", "")
        for use, (name, version) in sorted(declared_extensions().items())
        if use not in used
    ]
    if not rows:
        click.echo(f"{file.shown}: no plugins, and no installed package declares one")
        return
    for line in table([_TITLES, *rows]):
        click.echo(line)
    for record in records:
        if record.problem is not None:
            click.echo(f"{file.shown}: {record.label}: {record.problem}", err=True)


def _row(record: PluginRecord, receipts: ReceiptStore) -> tuple[str, ...]:
    use = record.text("use") or "-"
    name = record.text("package") or (declared_extensions().get(use) or ("",))[0]
    distribution = installed_distribution(name) if name else None
    version = distribution.version if distribution is not None else "(missing)"
    package = f"{name} {version}" if name else "-"
    receipt = receipts.find(name) if name else None
    return record.label, _state(record), use, package, receipt.source if receipt is not None else ""


def _state(record: PluginRecord) -> str:
    if record.problem is not None:
        return "broken"
    if not record.enabled:
        return "disabled"
    return "required" if record.fields.get("required") is True else "enabled"
