"""The service `http`."""

from __future__ import annotations

import asyncio
import importlib
import socket
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp

from axonx.components.registry import provider
from axonx.errors import NoApplicationError
from axonx.service.api import JobsApi, build_api
from axonx.service.base import BaseService
from axonx.service.bearer import BearerToken
from axonx.service.connection import BodyLimit
from axonx.service.exposure import exposed_jobs, hidden_for_lack_of_a_token
from axonx.service.loopback import LoopbackOnly
from axonx.service.options import HttpOptions
from axonx.service.server import EmbeddedServer, bind


@provider("http")
class HttpService(BaseService):
    """Offers the Jobs over HTTP, and as MCP tools at `/mcp` where the package `mcp` is installed.

    With a token, every request needs it and every Job with `enable_serve` is offered. Without one, the
    service listens on a loopback address only and offers Jobs with `requires_auth: false`. `port` 0 takes
    a free one; `address` tells it. When closing, requests have `shutdown_timeout` seconds to end, and
    `cleanup_timeout` seconds to clean up once they are cancelled.

    Raises `ConfigurationError` (a `ValueError`); starting raises `ServiceStartError` (an `OSError`).
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 1024,
        token: str | None = None,
        shutdown_timeout: float = 1,
        cleanup_timeout: float = 15,
        keep_alive_seconds: float = 15,
        max_body_bytes: int = 16 * 1024 * 1024,
        mcp: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if self.app_context is None:
            raise NoApplicationError("A service offers the Jobs of an application")
        self._options = HttpOptions.of(
            host=host,
            port=port,
            token=token,
            shutdown_timeout=shutdown_timeout,
            cleanup_timeout=cleanup_timeout,
            keep_alive_seconds=keep_alive_seconds,
            max_body_bytes=max_body_bytes,
            mcp=mcp,
        )
        self._context = self.app_context
        self.jobs = exposed_jobs(self._context, with_token=token is not None)
        self._listener: socket.socket | None = None
        self._server: EmbeddedServer | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """The URL that it listens at; only while it runs."""
        if self._listener is None:
            raise RuntimeError("The service is not running")
        host, port = self._listener.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def _start(self) -> None:
        options = self._options
        self._listener = await bind(options.host, options.port, loopback_only=options.token is None)
        app, mcp_sessions = await self._build_app()
        server = self._server = EmbeddedServer(self._guarded(app), options.shutdown_timeout)
        self._serving = asyncio.create_task(
            _serve(server, self._listener, mcp_sessions), name="axonx-service:http"
        )
        ready = asyncio.create_task(server.ready.wait())
        try:
            await asyncio.wait({ready, self._serving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if self._serving.done():
            self._serving.result()
        self._serving.add_done_callback(self._on_end)
        self._report()

    async def _close(self) -> None:
        server, serving, listener = self._server, self._serving, self._listener
        self._server = self._serving = self._listener = None
        if server is not None and serving is not None:
            server.stop()
            # uvicorn itself cancels requests after its own limit; a second one is for uvicorn.
            await asyncio.wait({serving}, timeout=self._options.shutdown_timeout + 5)
            serving.cancel()
            await self._wait_for({serving, *server.requests})
        if listener is not None:
            listener.close()

    async def _wait_for(self, tasks: set[asyncio.Task[None]]) -> None:
        _, late = await asyncio.wait(tasks, timeout=self._options.cleanup_timeout)
        if late:
            self.logger.warning(
                "%d requests ignore that they were cancelled; they are left behind", len(late)
            )

    async def _build_app(self) -> tuple[FastAPI, AbstractAsyncContextManager[None]]:
        api = JobsApi(
            self._context,
            self.jobs,
            with_targets=self._options.token is not None,
            keep_alive_seconds=self._options.keep_alive_seconds,
        )
        app = build_api(self.app_config.app_name, api)
        if not self._options.mcp:
            return app, nullcontext()
        # The SDK takes a while to import, which must not stop the loop.
        mcp_http = await asyncio.to_thread(importlib.import_module, "axonx.mcp.http")
        endpoint = mcp_http.McpEndpoint(self._context, self.jobs)
        app.add_route("/mcp", endpoint, methods=["POST"], include_in_schema=False)
        return app, endpoint.sessions()

    def _guarded(self, app: ASGIApp) -> ASGIApp:
        limited = BodyLimit(app, self._options.max_body_bytes)
        token = self._options.token
        return LoopbackOnly(limited) if token is None else BearerToken(limited, token)

    def _report(self) -> None:
        self.logger.info("Serving %d Jobs at %s", len(self.jobs), self.address)
        if self._options.token is None and (hidden := hidden_for_lack_of_a_token(self._context)):
            self.logger.warning(
                "Not served, as the service has no token: %s; set service.token, or requires_auth: false",
                ", ".join(hidden),
            )

    def _on_end(self, serving: asyncio.Task[None]) -> None:
        error = None if serving.cancelled() else serving.exception()
        if self._serving is serving:
            self.logger.error("The service has stopped by itself", exc_info=error)


async def _serve(
    server: EmbeddedServer, listener: socket.socket, mcp_sessions: AbstractAsyncContextManager[None]
) -> None:
    async with mcp_sessions:
        await server.serve(sockets=[listener])
