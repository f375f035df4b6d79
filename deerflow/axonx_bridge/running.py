"""An Application on the loop that started it, for calls from every loop and thread."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from typing import Any, TypeVar

from langchain_core.runnables.config import var_child_runnable_config

from axonx import Application
from axonx.errors import NotRunningError
from deerflow.axonx_bridge.crossing import Crossing, Work, WorkLostError

T = TypeVar("T")

logger = logging.getLogger(__name__)

# More than a Step may take to end once it is cancelled: until then the Application waits for it.
GRACE_SECONDS = 5.0


class BridgedApplication:
    """Starts and closes an Application, and runs work on its loop while it is open."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._crossings: set[Crossing[Any]] = set()

    @property
    def pending(self) -> int:
        """How much work is under way."""
        return len(self._crossings)

    async def start(self) -> None:
        """Start the Application on the running loop."""
        await self.application.start()
        self._loop = asyncio.get_running_loop()

    async def stop(self) -> None:
        """Take no more work, close the Application, and let what is under way end, bounded."""
        self._loop = None
        try:
            await self.application.close()
        finally:
            await self._drain()

    async def run(self, work: Work[T]) -> T:
        """Run `work` on the Application's loop; cancelling the caller cancels it and waits for its end.

        Raises `NotRunningError` while the Application is not open, `WorkLostError` where it ends the work.
        """
        return await self._begin(work).result(grace_seconds=self._grace_seconds)

    def run_blocking(self, work: Work[T]) -> T:
        """`run` for a thread. `WorkLostError` on the Application's own loop, which must not block."""
        if self._loop is not None and self._loop is _running_loop():
            raise WorkLostError("a blocking call on the loop that has to do the work; await the tool instead")
        return self._begin(work).blocking_result()

    @property
    def _grace_seconds(self) -> float:
        return self.application.app_config.job_close_timeout_seconds + GRACE_SECONDS

    def _begin(self, work: Work[T]) -> Crossing[T]:
        loop = self._loop
        if loop is None:
            raise NotRunningError(
                f"the AxonX application {self.application.app_config.app_name!r} is not running"
            )
        context = contextvars.copy_context()
        # Otherwise the frames and callbacks of models in Steps would pass for those of the calling agent.
        context.run(var_child_runnable_config.set, None)
        crossing = Crossing(loop, work, context)
        with self._lock:
            self._crossings.add(crossing)
        crossing.ended.add_done_callback(lambda _: self._forget(crossing))
        try:
            crossing.begin()
        except WorkLostError:
            self._forget(crossing)
            raise
        return crossing

    def _forget(self, crossing: Crossing[T]) -> None:
        with self._lock:
            self._crossings.discard(crossing)

    async def _drain(self) -> None:
        for cancel in (False, True):
            with self._lock:
                left = list(self._crossings)
            if not left:
                return
            if cancel:
                logger.warning("%d calls of an AxonX application did not end with it", len(left))
                for crossing in left:
                    crossing.cancel()
            await asyncio.wait({crossing.waiting() for crossing in left}, timeout=GRACE_SECONDS)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
