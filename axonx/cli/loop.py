"""Running a command's coroutine, so that it can be ended by signals and still cleans up."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any

_TERMINATED_STATUS = 128 + signal.SIGTERM


def run_in_loop(work: Coroutine[Any, Any, int]) -> int:
    """The coroutine's exit status; SIGINT (as KeyboardInterrupt) and SIGTERM cancel it."""
    return asyncio.run(_until_terminated(work))


async def _until_terminated(work: Coroutine[Any, Any, int]) -> int:
    working = asyncio.create_task(work)
    terminated = False

    def terminate() -> None:
        nonlocal terminated
        terminated = True
        working.cancel()

    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError):  # Windows
        loop.add_signal_handler(signal.SIGTERM, terminate)
    try:
        return await working
    except asyncio.CancelledError:
        if terminated:
            return _TERMINATED_STATUS
        raise
