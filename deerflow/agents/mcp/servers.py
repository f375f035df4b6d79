"""The servers of a configuration and their tools."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from langchain_core.tools import BaseTool
from langchain_mcp_adapters.tools import convert_mcp_tool_to_langchain_tool
from mcp import ClientSession
from mcp.types import Tool

from deerflow.agents.mcp.connection import McpConnection, McpServerError
from deerflow.agents.tool_owners import OwnedTool, ToolOwner
from deerflow.agents.tool_sides import both_sided
from deerflow.cancellation import uninterrupted
from deerflow.config.mcp import McpServerConfig

logger = logging.getLogger(__name__)


@asynccontextmanager
async def open_servers(servers: Mapping[str, McpServerConfig]) -> AsyncIterator[Sequence[OwnedTool]]:
    """Connect to all servers at once; their tools in the order of the servers."""
    connections = [McpConnection(name, server) for name, server in servers.items()]
    try:
        found = await asyncio.gather(*map(_tools_of, connections))
        yield [owned for tools in found for owned in tools]
    finally:
        closing = asyncio.gather(*(connection.close() for connection in connections))
        await uninterrupted(_result(closing), name="close MCP connections")


async def _tools_of(connection: McpConnection) -> list[OwnedTool]:
    try:
        tools = await connection.list_tools()
    except McpServerError as error:
        logger.warning("%s; its tools are missing until the next start", error)
        return []
    owner = ToolOwner(
        f"MCP server {connection.name!r}",
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


def _as_langchain(connection: McpConnection, tool: Tool) -> BaseTool:
    # The adapter asks nothing of a session but `call_tool`, which a connection has too.
    converted = convert_mcp_tool_to_langchain_tool(cast(ClientSession, connection), tool)
    prefix = connection.server.tool_prefix
    if prefix:
        converted = converted.model_copy(update={"name": f"{prefix}{tool.name}"})
    return both_sided(converted)


async def _result(future: asyncio.Future[Any]) -> Any:
    return await future
