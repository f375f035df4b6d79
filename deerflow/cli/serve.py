"""`deerflow serve`: the Gateway."""

from __future__ import annotations

import click

from deerflow.gateway.process.serve import DEFAULT_HOST, DEFAULT_PORT, serve


@click.command(short_help="Serve the Gateway.")
@click.option("--host", default=DEFAULT_HOST, show_default=True, help="The address to serve at.")
@click.option(
    "--port",
    default=DEFAULT_PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="0 takes a free one.",
)
@click.option(
    "--workers",
    default=1,
    show_default=True,
    type=click.IntRange(1, 64),
    help="Processes; more than one need PostgreSQL and Redis.",
)
@click.option("--config", "config_path", type=click.Path(), help="The configuration file.")
def command(host: str, port: int, workers: int, config_path: str | None) -> None:
    """Serve the Gateway to any LangGraph client, until SIGTERM or Ctrl-C."""
    serve(config_path, host, port, workers)
