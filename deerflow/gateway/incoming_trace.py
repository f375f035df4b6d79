"""A request may belong to a trace of its sender: then so do the runs that it starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send


class IncomingTrace:
    """Middleware that answers each request `within` the trace that its headers name."""

    def __init__(
        self, app: ASGIApp, within: Callable[[Mapping[str, str]], AbstractContextManager[None]]
    ) -> None:
        self._app = app
        self._within = within

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with self._within(Headers(scope=scope)):
            await self._app(scope, receive, send)
