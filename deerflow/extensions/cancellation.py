"""Where a cancellation came from: the host's own asyncio task, or the extension's code."""

from __future__ import annotations

import asyncio
from typing import Any

_abandoned: set[asyncio.Task[Any]] = set()


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


def abandon(asyncio_task: asyncio.Task[Any]) -> None:
    """Wait no longer for a task that ignores its cancellation, but keep it alive until it ends."""
    _abandoned.difference_update([task for task in _abandoned if task.get_loop().is_closed()])
    _abandoned.add(asyncio_task)
    asyncio_task.add_done_callback(_abandoned.discard)


async def complete(asyncio_task: asyncio.Task[None]) -> None:
    """Wait for a clean-up that bounds itself; a cancellation that arrives meanwhile travels on afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not asyncio_task.done():
        try:
            await asyncio.wait((asyncio_task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    asyncio_task.result()
