"""One piece of work on another event loop, waited for from any loop or thread."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, Generic, TypeVar

from deerflow.cancellation import uninterrupted
from deerflow.errors import DeerFlowError

T = TypeVar("T")

Work = Callable[[], Coroutine[Any, Any, T]]


class WorkLostError(DeerFlowError, RuntimeError):
    """The loop that did the work ended it, or has itself ended."""


class Crossing(Generic[T]):
    """`work` as a task of `loop`, in `context`. `ended` is done once the task is.

    Cancelling is asked for and then waited for, so that the work has cleaned up when its caller goes on.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Work[T], context: contextvars.Context) -> None:
        self.ended: Future[T] = Future()
        self._loop = loop
        self._work = work
        self._context = context
        self._cancelled = False
        self._asyncio_task: asyncio.Task[T] | None = None

    def begin(self) -> None:
        """Start the work, from any thread. `WorkLostError` where the loop is closed."""
        if _running_loop() is self._loop:
            self._start()
            return
        try:
            self._loop.call_soon_threadsafe(self._start)
        except RuntimeError:
            raise WorkLostError("the event loop of the application has ended") from None

    def cancel(self) -> None:
        """Ask the work to end, from any thread."""
        with suppress(RuntimeError):  # the loop is closed: there is no work any more
            self._loop.call_soon_threadsafe(self._cancel)

    def waiting(self) -> asyncio.Future[T]:
        """The end of the work as a future of the running loop; nobody has to ask what it ended with."""
        waiting = asyncio.wrap_future(self.ended)
        waiting.add_done_callback(_take_exception)
        return waiting

    async def result(self, *, grace_seconds: float) -> T:
        """Wait on any loop. A cancelled caller waits until the work has ended, at most the grace."""
        waiting = self.waiting()
        try:
            await asyncio.wait({waiting})
        except asyncio.CancelledError:
            self.cancel()
            await uninterrupted(_settle(waiting, grace_seconds), name="end of a call of AxonX")
            raise
        if waiting.cancelled():
            raise _lost()
        return waiting.result()

    def blocking_result(self) -> T:
        """Wait in a thread that runs no part of the loop."""
        try:
            return self.ended.result()
        except CancelledError:
            raise _lost() from None
        except BaseException:
            self.cancel()
            raise

    def _start(self) -> None:
        if self._cancelled:
            self.ended.cancel()
            return
        self._asyncio_task = self._loop.create_task(
            self._work(), name="deerflow call of AxonX", context=self._context
        )
        self._asyncio_task.add_done_callback(self._settled)

    def _cancel(self) -> None:
        self._cancelled = True
        if self._asyncio_task is not None:
            self._asyncio_task.cancel()

    def _settled(self, asyncio_task: asyncio.Task[T]) -> None:
        if asyncio_task.cancelled():
            self.ended.cancel()
        elif (error := asyncio_task.exception()) is not None:
            self.ended.set_exception(error)
        else:
            self.ended.set_result(asyncio_task.result())


def _lost() -> WorkLostError:
    return WorkLostError("the application ended the call")


async def _settle(waiting: asyncio.Future[Any], grace_seconds: float) -> None:
    await asyncio.wait({waiting}, timeout=grace_seconds)


def _take_exception(waiting: asyncio.Future[Any]) -> None:
    if not waiting.cancelled():
        waiting.exception()  # else asyncio reports it as never retrieved where the caller has gone


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
