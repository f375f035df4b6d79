"""Waiting that keeps its word when cancellation arrives in the middle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Event loops hold tasks weakly: a strong reference keeps these from being collected in mid-step.
_abandoned: set[asyncio.Task[Any]] = set()


async def uninterrupted(work: Coroutine[Any, Any, T], *, name: str) -> T:
    """Run `work` to its end although the caller may be cancelled meanwhile, also repeatedly.

    The cancellation is raised once `work` has ended. `work` must bound itself.
    """
    asyncio_task = asyncio.create_task(work, name=name)
    cancelled: asyncio.CancelledError | None = None
    while not asyncio_task.done():
        try:
            await asyncio.wait({asyncio_task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not asyncio_task.cancelled() and asyncio_task.exception() is not None:
            logger.error("%s failed while its caller was cancelled", name, exc_info=asyncio_task.exception())
        raise cancelled
    return asyncio_task.result()


async def settled(future: asyncio.Future[Any], *, timeout_seconds: float) -> bool:
    """Whether it is done within the time.

    Unlike `asyncio.timeout` it leaves nothing of the caller behind: a loop keeps timers that were cancelled
    for a long while, and with each of them the context variables of whoever set it.
    """
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(timeout_seconds, _settle, over, context=Context())
    try:
        await asyncio.wait((future, over), return_when=asyncio.FIRST_COMPLETED)
    finally:
        timer.cancel()
    return future.done()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def stop_task(asyncio_task: asyncio.Task[Any], *, grace_seconds: float) -> bool:
    """Cancel a task and wait for its end; False where it outlived the grace and was abandoned."""
    if asyncio_task.done():
        return True
    asyncio_task.cancel()
    await asyncio.wait({asyncio_task}, timeout=grace_seconds)
    if asyncio_task.done():
        return True
    abandon(asyncio_task)
    return False


def abandon(asyncio_task: asyncio.Task[Any]) -> None:
    """Wait no longer for a task that ignores its cancellation; it is kept alive until it ends by itself."""
    logger.warning("%s ignored its cancellation and was abandoned", asyncio_task.get_name())
    keep_alive(asyncio_task)


def keep_alive(asyncio_task: asyncio.Task[Any]) -> None:
    """Hold a task that nobody waits for until it ends; what it raises then is logged for debugging."""
    _abandoned.difference_update([kept for kept in _abandoned if kept.get_loop().is_closed()])
    _abandoned.add(asyncio_task)
    asyncio_task.add_done_callback(_forget)


def _forget(asyncio_task: asyncio.Task[Any]) -> None:
    _abandoned.discard(asyncio_task)
    if not asyncio_task.cancelled() and asyncio_task.exception() is not None:
        logger.debug("abandoned %s failed late", asyncio_task.get_name(), exc_info=asyncio_task.exception())
