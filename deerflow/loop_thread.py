"""A private event loop on a thread of its own, for calls from any thread and from any other loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from functools import cache
from typing import Any, TypeVar

from deerflow.errors import DeerFlowError

T = TypeVar("T")


class LoopThreadError(DeerFlowError, RuntimeError):
    """A blocking call from the very thread that would have to do the work."""


class LoopClosedError(LoopThreadError):
    """The loop has ended: nothing can be run on it any more."""


class LoopThread:
    """Runs an event loop until `close`. The thread is a daemon: a forgotten one does not keep a process."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start `work` on the loop; cancelling the future cancels it there.

        Raises `LoopClosedError` after `close`.
        """
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise LoopClosedError("the event loop of this client is closed") from None

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop and wait for it. A KeyboardInterrupt meanwhile cancels it."""
        if threading.current_thread() is self._thread:
            work.close()
            raise LoopThreadError(
                "a blocking call on the event loop that has to serve it; await the async face instead"
            )
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the loop after what is running; call from another thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()


@cache
def side_loop() -> LoopThread:
    """The one of this process on which synchronous callers run what is asynchronous only.

    One for all: what a tool or model keeps open belongs to the loop that opened it.
    """
    return LoopThread("deerflow synchronous calls")
