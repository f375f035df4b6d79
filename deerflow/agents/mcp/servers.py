"""The servers of a configuration and their tools."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import cast

from langchain_core.tools import BaseTool
from langchain_mcp_adapters.tools import convert_mcp_tool_to_langchain_tool
from mcp import ClientSession
from mcp.types import Tool

from deerflow.agents.mcp.connection import McpConnection, McpServerError
from deerflow.agents.tool_owners import OwnedTool, ToolOwner
from deerflow.agents.tool_sides import both_sided
from deerflow.cancellation import stop_task, uninterrupted
from deerflow.config.mcp import McpServerConfig

logger = logging.getLogger(__name__)

Offer = Callable[[Sequence[OwnedTool]], None]


FIRST_PAUSE_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 60.0
"""Between two attempts to reach a server that was not there at the start; pauses double."""


@asynccontextmanager
async def open_servers(
    servers: Mapping[str, McpServerConfig], *, offer_later: Offer
) -> AsyncIterator[Sequence[OwnedTool]]:
    """Connect to all servers at once; their tools in the order of the servers.

    `offer_later` is called, in a thread, with the tools of each server that comes after the start.
    """
    connections = [McpConnection(name, server) for name, server in servers.items()]
    late: list[asyncio.Task[None]] = []
    try:
        found = await asyncio.gather(*map(_tools_at_start, connections))
        missing = [each for each, tools in zip(connections, found, strict=True) if tools is None]
        late = [asyncio.create_task(_wait_for(each, offer_later), name=_name(each)) for each in missing]
        yield [owned for tools in found for owned in tools or ()]
    finally:
        await uninterrupted(_close(late, connections), name="close MCP connections")


async def _tools_at_start(connection: McpConnection) -> list[OwnedTool] | None:
    try:
        return _owned(connection, await connection.list_tools())
    except McpServerError as error:
        logger.warning("%s; its tools are missing until it can be reached", error)
        return None


async def _wait_for(connection: McpConnection, offer: Offer) -> None:
    """Ask again and again, until the server has told its tools once."""
    pause_seconds = FIRST_PAUSE_SECONDS
    while True:
        await asyncio.sleep(pause_seconds)
        try:
            tools = await connection.list_tools()
        except McpServerError as error:
            logger.debug("%s", error)
            pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)
            continue
        await asyncio.to_thread(offer, _owned(connection, tools))
        logger.info("%s can be reached now; runs that begin from now on have its tools", _name(connection))
        return


async def _close(late: Sequence[asyncio.Task[None]], connections: Sequence[McpConnection]) -> None:
    await asyncio.gather(*(stop_task(each, grace_seconds=1.0) for each in late))
    await asyncio.gather(*(connection.close() for connection in connections))


def _owned(connection: McpConnection, tools: Sequence[Tool]) -> list[OwnedTool]:
    owner = ToolOwner(
        _name(connection),
        "mcp",
        mcp_server=connection.name,
        mcp_transport=connection.server.transport,
    )
    converted = []
    for tool in tools:
        try:
            converted.append(OwnedTool(_as_langchain(connection, tool), owner))
        except Exception as error:  # noqa: BLE001 - a server may say anything of its tools
            logger.warning("%s: its tool %r is left out: %s", owner.label, tool.name[:100], error)
    return converted


def _name(connection: McpConnection) -> str:
    return f"MCP server {connection.name!r}"


def _as_langchain(connection: McpConnection, tool: Tool) -> BaseTool:
    # The adapter asks nothing of a session but `call_tool`, which a connection has too.
    converted = convert_mcp_tool_to_langchain_tool(cast(ClientSession, connection), tool)
    prefix = connection.server.tool_prefix
    if prefix:
        converted = converted.model_copy(update={"name": f"{prefix}{tool.name}"})
    return both_sided(converted)
