"""A run that is under way in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from langgraph.checkpoint.base import CheckpointTuple

from deerflow.agents.run_scope import RunScope
from deerflow.config.request import RequestOptions
from deerflow.extensions.lifecycle import TaskHooks
from deerflow.runs.ending import Ending
from deerflow.runs.events.log import EventLog
from deerflow.runs.record import NewRunEvent, RunRecord, RunStatus, ThreadRecord
from deerflow.runs.recorder import EventRecorder
from deerflow.runs.request import RunRequest
from deerflow.runs.title import Naming

# How long a run that was told to stop may take before it is abandoned.
STOP_GRACE_SECONDS = 10.0


def _future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


@dataclass(eq=False)
class ActiveRun:
    """One run from its admission to its end.

    `record` is how it was recorded, `thread` its thread before it begins, `naming` the search for a title;
    `ended` is set after the stream's end was published; `values` is the newest state of the graph.
    `before` is the checkpoint it goes on from, where that is an earlier run's. `taken_up` is one that a dead
    host had; `obstacle` says why it cannot go on. `lost` is one that another host has taken up.
    """

    request: RunRequest
    options: RequestOptions
    record: RunRecord
    thread: ThreadRecord
    recorder: EventRecorder
    log: EventLog = field(default_factory=EventLog)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    given_up: asyncio.Future[None] = field(default_factory=_future)
    supervisor: asyncio.Task[None] | None = None
    naming: Naming | None = None
    scope: RunScope | None = None
    hooks: TaskHooks | None = None
    stop_reason: str | None = None
    ending: Ending | None = None
    closing_events: list[NewRunEvent] = field(default_factory=list)
    is_saved: bool = False
    before: CheckpointTuple | None = None
    taken_up: bool = False
    obstacle: str | None = None
    lost: bool = False
    values: Mapping[str, Any] = field(default_factory=dict)
    _story: asyncio.Task[Ending] | None = None

    @property
    def run_id(self) -> str:
        return self.request.run_id

    @property
    def thread_id(self) -> str:
        return self.request.thread_id

    @property
    def user_id(self) -> str | None:
        return self.request.user_id

    @property
    def was_under_way(self) -> bool:
        """Whether another host, now dead, had begun the run."""
        return self.taken_up and self.record.status is RunStatus.RUNNING

    @property
    def is_delayed(self) -> bool:
        """Whether the run was asked for later than now, and has not begun."""
        return self._story is None and self.request.after_seconds > 0

    async def due(self) -> None:
        """Wait until the run may begin; a stop meanwhile ends the waiting."""
        if self.request.after_seconds > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.request.after_seconds):
                    await self.stopping.wait()

    def begin(self, story: Coroutine[Any, Any, Ending]) -> asyncio.Task[Ending]:
        """Start the story; where the run was stopped before, it never takes its first step."""
        self._story = asyncio.create_task(story, name=f"run {self.run_id}")
        if self.stop_reason is not None:
            self._story.cancel()
        return self._story

    def stop(self, reason: str) -> None:
        """Ask the run to stop; the first reason counts, and asking again changes nothing."""
        if self.stop_reason is not None:
            return
        self.stop_reason = reason
        self.stopping.set()
        if self._story is not None:
            self._story.cancel()
        if not self.given_up.done():
            # The timer holds the future alone, and goes with it: cancelled timers that wait behind a live one
            # would keep their contexts, and with them the run's task stores.
            timer = asyncio.get_running_loop().call_later(STOP_GRACE_SECONDS, _settle, self.given_up)
            self.given_up.add_done_callback(lambda _: timer.cancel())


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
