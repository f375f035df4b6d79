"""A real MCP server for tests, as a program: `python mcp_server.py stdio`, or `http PORT`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from mcp.server.fastmcp import Context, FastMCP
from mcp.types import ImageContent, TextContent

server = FastMCP("test server", port=int(sys.argv[2]) if len(sys.argv) > 2 else 0, log_level="ERROR")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def environment(name: str) -> str:
    """Read a variable of the server's environment."""
    return os.environ.get(name, "unset")


@server.tool()
def headers(context: Context) -> str:
    """The Authorization header of this request."""
    request = context.request_context.request
    return "none" if request is None else request.headers.get("authorization", "none")


@server.tool()
def process() -> int:
    """The id of the server's process."""
    return os.getpid()


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("failed on purpose")


@server.tool()
def picture() -> list[TextContent | ImageContent]:
    """A text and a picture."""
    return [
        TextContent(type="text", text="look"),
        ImageContent(type="image", data="aGk=", mimeType="image/png"),
    ]


@server.tool()
async def wait(seconds: float, begun: str = "") -> str:
    """Wait; a file `begun` tells that the waiting has begun."""
    if begun:
        Path(begun).touch()
    await asyncio.sleep(seconds)
    return "waited"


@server.tool()
def die() -> str:
    """End the server in the middle of the call."""
    os._exit(3)


@server.tool(name="odd name")
def odd() -> str:
    """A tool with a name that no provider takes."""
    return "never"


@server.tool()
def search() -> str:
    """Clashes with a configured tool."""
    return "the server's"


if __name__ == "__main__":
    server.run("stdio" if sys.argv[1] == "stdio" else "streamable-http")
