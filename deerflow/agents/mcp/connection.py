"""One server: connected until it goes away, and connected anew when it is needed again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from mcp import ClientSession, McpError
from mcp.types import CallToolResult, Tool

from deerflow.agents.mcp.life import ConnectionLostError, Life, is_unknown_session
from deerflow.config.mcp import McpServerConfig
from deerflow.errors import UnavailableError

T = TypeVar("T")

MOST_PAGES = 100
"""Pages of tools that are read of one server."""


class McpServerError(UnavailableError):
    """A server that cannot be reached, refuses, or went away in the middle of a call."""


class McpConnection:
    """A server of the configuration. Belongs to the event loop that made it; tools may be called on any."""

    def __init__(self, name: str, server: McpServerConfig) -> None:
        self.name = name
        self.server = server
        self._loop = asyncio.get_running_loop()
        self._life: Life | None = None
        self._closed = False

    async def list_tools(self) -> Sequence[Tool]:
        """All tools that the server offers. Raises `McpServerError`, also where that takes too long."""
        seconds = self.server.connect_timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._list_tools()
        except TimeoutError:
            raise McpServerError(f"MCP server {self.name!r} told no tools within {seconds:g} s") from None

    async def call_tool(self, name: str, arguments: dict[str, Any], **_: Any) -> CallToolResult:
        """Call a tool. A failure of the tool itself is in the result; else raises `McpServerError`."""
        if asyncio.get_running_loop() is self._loop:
            return await self._call_tool(name, arguments)
        call = asyncio.run_coroutine_threadsafe(self._call_tool(name, arguments), self._loop)
        return await asyncio.wrap_future(call)

    async def close(self) -> None:
        """End the connection, within bounds."""
        self._closed = True
        if self._life is not None:
            await self._life.end()

    async def _list_tools(self) -> Sequence[Tool]:
        tools: list[Tool] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await self._ask(lambda session, at=cursor: session.list_tools(cursor=at))  # type: ignore[misc]
            tools.extend(page.tools)
            cursor = page.nextCursor
            if not cursor:
                break
        return tools

    async def _call_tool(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        limit = timedelta(seconds=self.server.call_timeout_seconds)
        return await self._ask(lambda session: session.call_tool(name, arguments, read_timeout_seconds=limit))

    async def _ask(self, request: Callable[[ClientSession], Awaitable[T]]) -> T:
        life = self._present_life()
        try:
            return await life.ask(request)
        except McpError as error:
            if not is_unknown_session(error):
                raise self._failure(error) from error
        except Exception as error:
            raise self._failure(error) from error
        # Nothing was done: ask again, in another session.
        await life.end()
        try:
            return await self._present_life().ask(request)
        except Exception as error:
            raise self._failure(error) from error

    def _present_life(self) -> Life:
        """The connection as it is, or a new one; whoever comes meanwhile waits for the same attempt."""
        if self._closed:
            raise McpServerError(f"the connection to MCP server {self.name!r} is closed")
        if self._life is None or self._life.is_over:
            self._life = Life(self.name, self.server)
        return self._life

    def _failure(self, error: BaseException) -> McpServerError:
        """What a model and a log may read of it: no header, no variable, no group of errors."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        kind = "" if isinstance(error, McpError | ConnectionLostError) else f"{type(error).__name__}: "
        text = f"MCP server {self.name!r}: {kind}{error}"
        for secret in sorted(self.server.secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return McpServerError(text)
