"""`deerflow extensions stats`: what do the hooks of a running Gateway's extensions cost?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import click

from deerflow.cli.extensions.shared import reported, table
from deerflow.kit.running import HookStatistics, read_statistics

# As `deerflow serve` has it, which would take a second to import.
_DEFAULT_URL = "http://127.0.0.1:8001"
_TITLES = ("EXTENSION", "HOOK", "CALLS", "FAILURES", "SECONDS", "MS/CALL")


@click.command()
@click.option(
    "--url",
    envvar="DEER_FLOW_URL",
    show_envvar=True,
    default=_DEFAULT_URL,
    show_default=True,
    help="The Gateway's address.",
)
@click.option(
    "--token",
    envvar="DEER_FLOW_TOKEN",
    show_envvar=True,
    help="An administrator's token, where the Gateway has users; the variable is not seen by others.",
)
@click.option("--json", "as_json", is_flag=True, help="Write them as one line of JSON.")
@reported
def stats(url: str, token: str | None, as_json: bool) -> None:
    """Say what the hooks of a running Gateway's extensions took since it started, the dearest first.

    The time of model and tool calls, around which hooks may stand, is not theirs.
    """
    hooks = read_statistics(url, token)
    if as_json:
        click.echo(json.dumps({"hooks": [asdict(hook) for hook in hooks]}))
    elif not hooks:
        click.echo("no hook of an extension has run yet")
    else:
        for line in table([_TITLES, *_rows(hooks)]):
            click.echo(line)


def _rows(hooks: Sequence[HookStatistics]) -> Iterator[tuple[str, ...]]:
    for hook in hooks:
        each = f"{1000 * hook.seconds / hook.calls:.2f}" if hook.calls else "-"
        counts = (str(hook.calls), str(hook.failures))
        yield (hook.extension, hook.hook, *counts, f"{hook.seconds:.3f}", each)
