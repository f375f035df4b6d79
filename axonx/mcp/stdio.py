"""MCP over the standard input and output of the process."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import TYPE_CHECKING

import anyio
from mcp.server.stdio import stdio_server

from axonx.mcp.tools import build_job_server

if TYPE_CHECKING:
    from axonx.core.app_context import AppContext


async def serve_stdio(context: AppContext) -> None:
    """Serve every Job with `enable_serve` to whoever started this process, until its input ends.

    What Jobs print goes to standard error: standard output belongs to the protocol.
    """
    jobs = {name: job for name, job in context.jobs.items() if job.enable_serve}
    server = build_job_server(context, jobs)
    stdin = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace")
    stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8")
    with contextlib.redirect_stdout(sys.stderr):
        async with stdio_server(anyio.wrap_file(stdin), anyio.wrap_file(stdout)) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
