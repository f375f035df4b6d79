"""An MCP server whose tools are Jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp import types
from mcp.server.lowlevel import Server
from pydantic_core import from_json

from axonx import __version__
from axonx.components.job.response import JobResponse
from axonx.errors import UnknownJobError
from axonx.service.envelope import envelope_json

if TYPE_CHECKING:
    from axonx.components.job.base import BaseJob
    from axonx.core.app_context import AppContext

JobServer = Server[Any, Any]


def build_job_server(context: AppContext, jobs: Mapping[str, BaseJob]) -> JobServer:
    """One tool for each Job, of the same name; structured content is the envelope of the call.

    A failed Job is an ordinary result with `success` false; arguments that do not fit are a tool error.
    """
    server: JobServer = Server(context.config.app_name, __version__)
    tools = [_tool(job) for job in jobs.values()]

    @server.list_tools()  # type: ignore[no-untyped-call, untyped-decorator]
    async def list_tools() -> list[types.Tool]:
        return tools

    # The Job checks its arguments itself, so that every way to call it refuses with the same words.
    @server.call_tool(validate_input=False)  # type: ignore[untyped-decorator]
    async def call_tool(
        name: str, arguments: dict[str, Any]
    ) -> tuple[list[types.TextContent], dict[str, Any]]:
        if name not in jobs:
            raise UnknownJobError(f"Unknown job: {name!r}")
        text = envelope_json(await context.dispatcher.run(name, arguments))
        return [types.TextContent(type="text", text=text)], from_json(text)

    return server


def _tool(job: BaseJob) -> types.Tool:
    return types.Tool(
        name=job.name,
        description=job.description,
        inputSchema=job.parameters,
        outputSchema=JobResponse.model_json_schema(),
    )
