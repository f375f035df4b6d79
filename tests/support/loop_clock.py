"""The clock of an event loop, put forward by a test: a limit is over without anybody waiting for it."""

from __future__ import annotations

import asyncio


def put_forward(loop: asyncio.AbstractEventLoop, seconds: float) -> None:
    """Let it be so much later for this loop from now on; what is due by then comes at its next turn."""
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]
