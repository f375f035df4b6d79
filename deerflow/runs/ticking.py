"""A tick again and again, which keeps nothing waiting in the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def ticking(pause_seconds: float, *, name: str) -> AsyncIterator[asyncio.Event]:
    """An event that is set again and again, from a thread.

    A timer that always waits in the event loop would keep cancelled ones behind it, and with their contexts
    whatever the runs that they belonged to held.
    """
    loop, tick, over = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def beat() -> None:
        while not over.wait(pause_seconds):
            loop.call_soon_threadsafe(tick.set)

    thread = threading.Thread(target=beat, name=name, daemon=True)
    thread.start()
    try:
        yield tick
    finally:
        over.set()
        await asyncio.to_thread(thread.join)
