"""Where a cancellation came from: the host's own asyncio task, or the extension's code."""

from __future__ import annotations

import asyncio
from typing import Any


def cancel_requests(asyncio_task: asyncio.Task[Any] | None) -> int:
    """Return how often this task has been asked to cancel; 0 where there is none."""
    return 0 if asyncio_task is None else asyncio_task.cancelling()


def running_task() -> asyncio.Task[Any] | None:
    """Return the asyncio task that runs this code, None outside of an event loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def must_propagate(error: BaseException) -> bool:
    """Tell whether what synchronous extension code raised is meant for the host and not a failure of it."""
    if isinstance(error, asyncio.CancelledError):
        return cancel_requests(running_task()) > 0
    return isinstance(error, (KeyboardInterrupt, SystemExit))


async def drop_left_over_cancellation() -> bool:
    """Forget that this asyncio task was asked to cancel; whether a CancelledError was still under way.

    An extension that cancels the task its hook runs in would otherwise hit whatever runs there next.
    """
    asyncio_task = asyncio.current_task()
    if asyncio_task is None or not asyncio_task.cancelling():
        return False
    while asyncio_task.uncancel():
        pass
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        return True
    return False
