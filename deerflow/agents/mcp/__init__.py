"""Tools of servers that speak the Model Context Protocol.

The SDK is an extra, and takes a second to import: nothing here is imported before a server is configured.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from deerflow.agents.tool_owners import OwnedTool
from deerflow.config.mcp import McpConfig
from deerflow.errors import ConfigError

__all__ = ["open_mcp_tools"]


@asynccontextmanager
async def open_mcp_tools(
    config: McpConfig, *, offer_later: Callable[[Sequence[OwnedTool]], None] = lambda tools: None
) -> AsyncIterator[Sequence[OwnedTool]]:
    """The tools of all servers that could be reached, in the order of the servers; closes the connections.

    A server that cannot be reached costs a warning, and its tools. It is tried again from time to time:
    `offer_later` gets its tools once it is there.
    """
    if not config.enabled_servers:
        yield ()
        return
    try:
        servers = await asyncio.to_thread(importlib.import_module, f"{__name__}.servers")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"mcp.servers: {error.name} is not installed; "
            "pip install 'deerflow[mcp]', or take the servers out"
        ) from error
    async with servers.open_servers(config.enabled_servers, offer_later=offer_later) as tools:
        yield tools
