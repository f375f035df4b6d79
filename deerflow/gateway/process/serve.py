"""Serve the Gateway until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Mapping
from typing import Any

import uvicorn
from uvicorn.lifespan.off import LifespanOff
from uvicorn.lifespan.on import LifespanOn

from deerflow.config import AppConfig, config_from
from deerflow.errors import ConfigError, DeerFlowError
from deerflow.extensions import ExtensionLoadError
from deerflow.gateway.app import create_app
from deerflow.gateway.auth.loopback import is_loopback_name
from deerflow.gateway.process.log_format import configure_logging
from deerflow.gateway.process.request_heads import BoundedHeads
from deerflow.gateway.process.workers import START_FAILED, Workers, check_workers

logger = logging.getLogger(__name__)

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8001
# Runs have ended by then: this is only for what is on its way to slow readers.
CONNECTION_CLOSE_SECONDS = 5
_POLL_SECONDS = 0.1


def serve(
    config: AppConfig | str | os.PathLike[str] | Mapping[str, Any] | None = None,
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    workers: int = 1,
) -> None:
    """Serve until SIGTERM or SIGINT; runs under way then get `shutdown.drain_seconds`, and are stopped.

    Raises `ConfigError` where this configuration must not be served at `host`, or not by so many `workers`,
    and where the port is taken. What cannot start ends the process with a status other than 0.
    """
    config = config_from(config)
    check_bind_address(config, host)
    check_workers(config, workers)
    check_port(host, port)
    configure_logging(config.logging.format)
    if workers > 1:
        listener = server_config(None, host, port).bind_socket()
        sys.exit(Workers(_work, config, listener, workers).run())
    if not _run(GatewayServer(server_config(create_app(config), host, port))):
        sys.exit(1)


def _work(config: AppConfig, listener: socket.socket) -> None:
    """Serve in one of several processes. The configuration is what their parent has read."""
    configure_logging(config.logging.format)
    try:
        app = create_app(config)
    except DeerFlowError as error:
        reason = error.reason if isinstance(error, ExtensionLoadError) else ""
        logger.error("%s", f"{error}: {reason}" if reason else error)
        sys.exit(START_FAILED)
    except Exception:  # whatever keeps one worker from starting keeps all of them
        logger.exception("the application could not be made")
        sys.exit(START_FAILED)
    host, port = listener.getsockname()[:2]
    if not _run(GatewayServer(server_config(app, host, port)), listener):
        sys.exit(START_FAILED)


def _run(server: GatewayServer, *listeners: socket.socket) -> bool:
    """Whether it came up; returns once it is down again."""
    try:
        server.run(sockets=list(listeners) or None)
    except KeyboardInterrupt:
        pass  # the shutdown is over; uvicorn raises the signal once more for whoever else wants it
    return server.started


def check_bind_address(config: AppConfig, host: str) -> None:
    """Refuse, with `ConfigError`, to serve anyone but this machine where there are no users."""
    if config.auth.mode == "none" and not is_loopback_name(host):
        raise ConfigError(
            f"auth.mode: 'none' serves this machine only, not {host!r}; "
            "serve at 127.0.0.1, or set auth.mode: users"
        )


def check_port(host: str, port: int) -> None:
    """Raise `ConfigError` where nobody can listen there, before anything is opened or started."""
    try:
        for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            socket.create_server(address[:2], family=family).close()
    except OSError as error:
        reason = str(error.strerror or error).partition(" (while")[0]
        raise ConfigError(
            f"cannot serve at {host}, port {port}: {reason}; choose another --host or --port"
        ) from error


def server_config(app: Any, host: str, port: int) -> uvicorn.Config:
    """How uvicorn serves the Gateway."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http=BoundedHeads,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=CONNECTION_CLOSE_SECONDS,
    )


class GatewayLifespan(LifespanOn):
    """The life of the application; its start, which a service may hold up for ever, can be given up."""

    _asyncio_task: asyncio.Task[Any] | None = None
    _given_up = False

    async def main(self) -> None:
        self._asyncio_task = asyncio.current_task()
        await super().main()

    def give_up_start(self) -> None:
        """Cancel the start, unless it is over; what was started is stopped again."""
        if self._asyncio_task is not None and not self.startup_event.is_set():
            logger.warning("told to exit before the start was over; it is given up")
            self._given_up = True
            self._asyncio_task.cancel()

    async def send(self, message: Any) -> None:
        # Starlette tells where it was cancelled, which is no failure to be looked into.
        await super().send({"type": message["type"]} if self._given_up else message)


class GatewayServer(uvicorn.Server):
    """A server that ends its application before its connections: streams end when their runs do.

    It can be told to exit at any time, also while the application is starting.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.lifespan = lifespan = GatewayLifespan(self.config)
        watch = asyncio.create_task(self._watch_start(lifespan), name="watch of the start")
        try:
            await super().startup(sockets)
        finally:
            watch.cancel()

    async def _watch_start(self, lifespan: GatewayLifespan) -> None:
        while not self.should_exit:
            await asyncio.sleep(_POLL_SECONDS)
        lifespan.give_up_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        ending = asyncio.create_task(self.lifespan.shutdown(), name="shutdown of the application")
        while not ending.done() and not self.force_exit:
            await asyncio.wait({ending}, timeout=_POLL_SECONDS)
        self.lifespan = LifespanOff(self.config)
        await super().shutdown(sockets)
