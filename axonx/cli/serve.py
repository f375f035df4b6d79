"""`axonx serve`: an Application with its service, until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import signal
import sys

import click

from axonx.application import Application
from axonx.cli.configuration import config_option, load_configuration

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LOOK_SECONDS = 0.5


@click.command("serve")
@config_option
@click.option("--host", help="Listen here instead of at service.host.")
@click.option("--port", type=int, help="Listen here instead of at service.port; 0 takes a free port.")
@click.option("--token", envvar="AXONX_TOKEN", help="Bearer token, instead of service.token.")
@click.option("--mcp-stdio", is_flag=True, help="Serve MCP over standard input and output instead of HTTP.")
def command(
    config_file: str | None, host: str | None, port: int | None, token: str | None, mcp_stdio: bool
) -> int:
    """Start the application and serve its Jobs, over HTTP unless the configuration says otherwise."""
    config = load_configuration(config_file)
    if mcp_stdio:
        return asyncio.run(_serve_stdio(Application(**{**config, "service": None})))
    given = {"host": host, "port": port, "token": token}
    changes = {key: value for key, value in given.items() if value is not None}
    service = {**(config.get("service") or {"backend": "http"}), **changes}
    return asyncio.run(_serve(Application(**{**config, "service": service})))


async def _serve(app: Application) -> int:
    stop = _stop_on_signals()
    async with app:
        address = getattr(app.context.service, "address", app.context.service)
        click.echo(f"{app.app_config.app_name}: serving at {address}", err=True)
        while app.is_started and not stop.is_set():  # a Job may close the application, too
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _LOOK_SECONDS)
    return 0


async def _serve_stdio(app: Application) -> int:
    stop = _stop_on_signals()
    # The SDK is an extra, and imported for those who use it.
    serve_stdio = importlib.import_module("axonx.mcp.stdio").serve_stdio
    async with app:
        serving = asyncio.create_task(serve_stdio(app.context))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
    if not serving.done():
        # The thread that waits for input cannot be stopped, and the process would wait for it.
        sys.stderr.flush()
        os._exit(0)
    serving.result()
    return 0


def _stop_on_signals() -> asyncio.Event:
    """Set by the first SIGINT or SIGTERM; a second one acts as it does by default."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def handle() -> None:
        stop.set()
        for each in _SIGNALS:
            loop.remove_signal_handler(each)

    with contextlib.suppress(NotImplementedError):  # Windows
        for each in _SIGNALS:
            loop.add_signal_handler(each, handle)
    return stop
