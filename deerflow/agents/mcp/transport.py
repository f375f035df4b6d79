"""From a server's configuration to a pair of message streams."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from deerflow.config.mcp import McpServerConfig

Streams = tuple[Any, Any]
"""What the server says, and what it is told."""


@asynccontextmanager
async def open_transport(server: McpServerConfig) -> AsyncIterator[Streams]:
    """Start the server, or reach it, and stop or leave it again."""
    opened = _started(server) if server.transport == "stdio" else _reached(server)
    async with opened as streams:
        yield streams


@asynccontextmanager
async def _started(server: McpServerConfig) -> AsyncIterator[Streams]:
    parameters = StdioServerParameters(
        command=str(server.command),
        args=[str(argument) for argument in server.args],
        env={str(name): str(value) for name, value in server.env.items()},
        cwd=server.cwd,
    )
    # Not `sys.stderr`: a program can only write to a real file.
    async with stdio_client(parameters, errlog=sys.__stderr__ or sys.stderr) as (read, write):
        yield read, write


@asynccontextmanager
async def _reached(server: McpServerConfig) -> AsyncIterator[Streams]:
    headers = {str(name): str(value) for name, value in server.headers.items()}
    timeout = httpx.Timeout(server.connect_timeout_seconds, read=server.call_timeout_seconds)
    async with create_mcp_http_client(headers=headers, timeout=timeout) as client:
        async with streamable_http_client(str(server.url), http_client=client) as (read, write, _):
            yield read, write
