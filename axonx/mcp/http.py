"""MCP over streamable HTTP, without sessions: each request stands alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Message, Receive, Scope, Send

from axonx.mcp.tools import build_job_server
from axonx.service.connection import read_body, run_while_connected

if TYPE_CHECKING:
    from axonx.components.job.base import BaseJob
    from axonx.core.app_context import AppContext


class McpEndpoint:
    """An ASGI application; usable inside `sessions()`. A client that leaves cancels its call."""

    def __init__(self, context: AppContext, jobs: Mapping[str, BaseJob]) -> None:
        server = build_job_server(context, jobs)
        self._manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)

    @asynccontextmanager
    async def sessions(self) -> AsyncIterator[None]:
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive)
        if body is not None:
            work = self._manager.handle_request(scope, _replaying(body), send)
            await run_while_connected(receive, work)


def _replaying(body: bytes) -> Receive:
    """The body once more, and then silence: whether the client is there is watched elsewhere."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop()

    return receive
