"""uvicorn inside a running event loop, on a socket that is bound already."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import cast

import uvicorn
from starlette.types import ASGIApp

from axonx.service.errors import ServiceStartError
from axonx.service.loopback import is_loopback_address

# uvicorn renews its Date header at every tenth tick.
_TICKS_PER_SECOND = 10


class EmbeddedServer(uvicorn.Server):
    """Leaves the process's signal handlers and logging alone; `ready` is set when it listens."""

    def __init__(self, app: ASGIApp, shutdown_timeout_seconds: float) -> None:
        config = uvicorn.Config(
            app,
            lifespan="off",
            # Switching the access log off here would switch it off for the whole process.
            log_config=None,
            server_header=False,
            proxy_headers=False,
            ws="none",
            # Declared as whole seconds, but any number of them is waited for.
            timeout_graceful_shutdown=cast("int", shutdown_timeout_seconds),
        )
        super().__init__(config)
        self.ready = asyncio.Event()
        self._stopping = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def main_loop(self) -> None:
        tick = 0
        while not await self.on_tick(tick):
            tick += _TICKS_PER_SECOND
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), 1)

    def stop(self) -> None:
        """End the main loop: answer what has been asked, then close."""
        self.should_exit = True
        self._stopping.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    @property
    def requests(self) -> set[asyncio.Task[None]]:
        """The requests that are being answered."""
        return self.server_state.tasks


async def bind(host: str, port: int, *, loopback_only: bool) -> socket.socket:
    """A socket bound to the first address of `host`. Raises `ServiceStartError`, an `OSError`."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ServiceStartError(f"service: host {host!r} has no address: {error}") from None
    family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    if loopback_only and not is_loopback_address(str(address[0])):
        raise ServiceStartError(f"service: {host!r} is {address[0]} here, which needs service.token")
    # asyncio sends without delay only where the protocol is spelled out.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        raise ServiceStartError(
            f"service: cannot listen on {host}:{port}: {error.strerror}; choose another service.port"
        ) from None
    return listener
