"""Where a cancellation came from: the host's own task, or the extension's code."""

from __future__ import annotations

import asyncio


def cancel_requests(asyncio_task: asyncio.Task[object] | None) -> int:
    """Return how often this task has been asked to cancel; 0 where there is none."""
    return 0 if asyncio_task is None else asyncio_task.cancelling()


def running_task() -> asyncio.Task[object] | None:
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
