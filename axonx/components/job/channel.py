"""Where the events of a call go: to a stream's reader through a bounded buffer, or nowhere."""

from __future__ import annotations

import asyncio
from collections import deque
from pathlib import Path

from axonx.components.job.events import (
    AgentMessageEvent,
    ArtifactEvent,
    LogEvent,
    ProgressEvent,
    ResultEvent,
    StepEvent,
)
from axonx.core.paths import confined
from axonx.errors import InvalidEventError

DEFAULT_EVENT_BUFFER_SIZE = 64

_STEP_EVENTS = (ProgressEvent, LogEvent, ArtifactEvent, AgentMessageEvent)


def checked_event(event: object) -> StepEvent:
    """A validated copy of an event; raises `InvalidEventError` for what a Step may not emit."""
    if isinstance(event, _STEP_EVENTS):
        return type(event).model_validate(event)
    if isinstance(event, ResultEvent):
        raise InvalidEventError(
            "a Step cannot emit a ResultEvent: set self.response, the Job sends the only ResultEvent"
        )
    raise InvalidEventError(
        f"a Step can emit ProgressEvent, LogEvent, ArtifactEvent and AgentMessageEvent, "
        f"not {type(event).__name__}"
    )


class DiscardedEvents:
    """Checks events and drops them: nobody reads them when only the response is wanted."""

    def __init__(self, workspace_path: Path) -> None:
        self._workspace_path = workspace_path
        self._unyielded = 0

    async def emit(self, event: object) -> None:
        checked = checked_event(event)
        if isinstance(checked, ArtifactEvent):
            await asyncio.to_thread(confined, self._workspace_path, checked.path)
        self._unyielded += 1
        if self._unyielded >= DEFAULT_EVENT_BUFFER_SIZE:
            # Like a full buffer: a Step that only emits lets others run.
            self._unyielded = 0
            await asyncio.sleep(0)

    def finish(self) -> None:
        """Nothing to end: nobody reads."""

    def stop_waiting(self) -> None:
        """Nothing to end: nobody waits."""


class EventChannel:
    """A buffer of `limit` events between the Steps of one call and one reader.

    The end of the call is not an entry of the buffer, so a full buffer never holds it back.
    """

    def __init__(self, workspace_path: Path, limit: int) -> None:
        self._workspace_path = workspace_path
        self._limit = limit
        self._finished = False
        self._stopping = False
        self._reader: asyncio.Future[None] | None = None
        self._writers: deque[asyncio.Future[None]] = deque()
        self.items: deque[StepEvent] = deque()

    async def emit(self, event: object) -> None:
        """Append a checked copy; waits while the buffer is full.

        Drops it when the call is over, and when the buffer is full while the call is being stopped: what a
        Step says while it cleans up must not keep it from ending.
        """
        checked = checked_event(event)
        if isinstance(checked, ArtifactEvent):
            await asyncio.to_thread(confined, self._workspace_path, checked.path)
        items = self.items
        while len(items) >= self._limit and not self._stopping:
            await self._wait_for_room()
        if self._finished or len(items) >= self._limit:
            return
        items.append(checked)
        if self._reader is not None:
            self._wake_reader()

    def take(self) -> StepEvent:
        """Remove the oldest event; there must be one."""
        event = self.items.popleft()
        if self._writers:
            self._wake_writer()
        return event

    async def wait(self) -> bool:
        """Wait for an event; `False` when the call is over and everything has been read."""
        while not self.items:
            if self._finished:
                return False
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        return True

    def finish(self) -> None:
        """The call is over: what is in the buffer can still be read, nothing more comes in."""
        self._finished = True
        self._wake_reader()
        self.stop_waiting()

    def stop_waiting(self) -> None:
        """The call is being stopped: nobody waits for room any more."""
        self._stopping = True
        while self._writers:
            self._wake_writer()

    async def _wait_for_room(self) -> None:
        writer = asyncio.get_running_loop().create_future()
        self._writers.append(writer)
        try:
            await writer
        except asyncio.CancelledError:
            if writer in self._writers:
                self._writers.remove(writer)
            elif len(self.items) < self._limit:
                self._wake_writer()
            raise

    def _wake_writer(self) -> None:
        while self._writers:
            writer = self._writers.popleft()
            if not writer.done():
                writer.set_result(None)
                return

    def _wake_reader(self) -> None:
        reader = self._reader
        if reader is not None and not reader.done():
            reader.set_result(None)
