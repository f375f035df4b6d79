"""A tool that waits until a test opens the gate."""

from __future__ import annotations

import asyncio

from langchain_core.tools import tool

gate = asyncio.Event()
"""A test puts one of its own here, as it belongs to one loop."""


@tool
async def pass_gate() -> str:
    """Wait until the gate is open."""
    await gate.wait()
    return "passed"
