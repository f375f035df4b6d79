"""One call of a Job: a task that produces events and a response, and whoever waits for them.

Every way to call a Job goes through here, so that all of them end alike: with exactly one response.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from enum import Enum
from typing import TYPE_CHECKING

from axonx.components.job.channel import DiscardedEvents, EventChannel
from axonx.components.job.events import ResultEvent, StepEvent
from axonx.components.job.outcome import checked_response, failed_response, failure_text
from axonx.components.job.response import JobResponse
from axonx.core.current import Work, current_work

if TYPE_CHECKING:
    from axonx.components.job.base import BaseJob
    from axonx.core.app_context import AppContext


class StopReason(Enum):
    APPLICATION_CLOSED = "Application closed while job {job!r} was running"
    CALLER_LEFT = "The caller of job {job!r} left before it ended"


class Call:
    """A running call; `response` is what its Steps fill in, `final` is what the caller gets."""

    def __init__(
        self, job: BaseJob, work: Callable[[Call], Awaitable[None]], sink: EventChannel | DiscardedEvents
    ) -> None:
        self.job = job
        self.sink = sink
        self.response = JobResponse()
        self.final: JobResponse | None = None
        self.stopped: StopReason | None = None
        self.abandoned = False
        self.step = ""
        self.app_context: AppContext | None = job.app_context
        self.parent: Work | None = current_work.get()
        self._work = work
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = loop.create_future()
        task = loop.create_task(self._run(), name=job._job_runtime.task_name)
        task.add_done_callback(self._on_task_done)
        self.task: asyncio.Task[None] | None = task
        job._job_runtime.calls.add(self)

    async def _run(self) -> None:
        current_work.set(self)
        try:
            await self._work(self)
            if self.stopped is not None:
                self._fail(self._stopped_text())
        except asyncio.CancelledError:
            self._fail(self._cancelled_text())
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the caller gets every failure as a response
            self._fail(failure_text(error) if self.stopped is None else self._stopped_text())
            self._log_failure(error)
        self._settle()

    @property
    def is_over(self) -> bool:
        """Whether the task has ended; an abandoned call has its response earlier."""
        return self.task is None or self.task.done()

    def stop(self, reason: StopReason) -> None:
        """Cancel the running Step, once; again only when it has been abandoned. The first reason counts."""
        if self.task is not None and (self.stopped is None or self.abandoned):
            self.stopped = self.stopped or reason
            self.sink.stop_waiting()
            self.task.cancel()

    async def leave(self) -> None:
        """The caller goes: cancel the call and wait until its Step has cleaned up, within the limit."""
        if self.is_over or self.abandoned:
            return
        self.sink.finish()
        await stop_calls((self,), StopReason.CALLER_LEFT, self.job._job_runtime.close_timeout_seconds)

    def abandon(self, seconds: float) -> None:
        """Stop waiting for a Step that ignores cancellation; whoever waits for the call gets a failure."""
        self.job.logger.warning(
            "Job %r: %s ignored cancellation for %g s and was abandoned; it still runs",
            self.job.name,
            self.step or "its stream",
            seconds,
        )
        self.abandoned = True
        self._fail(self._stopped_text())
        self._settle()

    def _settle(self) -> None:
        if self.final is None:
            self.final = checked_response(self.response)
            self.sink.finish()
            if not self.ended.done():
                self.ended.set_result(None)

    def _fail(self, answer: str) -> None:
        self.response = failed_response(answer, self.response)

    def _stopped_text(self) -> str:
        reason = self.stopped or StopReason.APPLICATION_CLOSED
        return reason.value.format(job=self.job.name)

    def _cancelled_text(self) -> str:
        if self.stopped is not None:
            return self._stopped_text()
        return f"CancelledError: {self.step or 'the Job'} was cancelled although its caller did not cancel it"

    def _log_failure(self, error: BaseException) -> None:
        self.job.logger.warning(
            "Job %r failed in %s", self.job.name, self.step or "its stream", exc_info=error
        )

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self.job._job_runtime.calls.discard(self)
        # The task's context refers to this call: without these the two would wait for the collector.
        self.task = None
        self.parent = None
        if self.final is None:  # cancelled before its first step, or the process is being interrupted
            self._fail(self._cancelled_text())
            self._settle()
        if not task.cancelled():
            task.exception()


async def run_call(job: BaseJob, work: Callable[[Call], Awaitable[None]]) -> JobResponse:
    """Run to the end without reading events; cancelling the caller cancels the call and waits for it."""
    call = Call(job, work, DiscardedEvents(job.workspace_path))
    try:
        await call.ended
    except asyncio.CancelledError:
        await call.leave()
        raise
    assert call.final is not None
    return call.final


async def stream_call(
    job: BaseJob, work: Callable[[Call], Awaitable[None]]
) -> AsyncGenerator[StepEvent | ResultEvent, None]:
    """Yield the call's events and its ResultEvent; leaving the stream cancels the call."""
    if not job.is_accepting:
        yield _result(JobResponse(success=False, answer=f"NotRunningError: Job {job.name!r} is not running"))
        return
    channel = EventChannel(job.workspace_path, job._job_runtime.event_buffer_size)
    call = Call(job, work, channel)
    try:
        items = channel.items
        while items or await channel.wait():
            yield channel.take()
        assert call.final is not None
        yield _result(call.final)
    finally:
        await call.leave()


def _result(response: JobResponse) -> ResultEvent:
    return ResultEvent(answer=response.answer, success=response.success, metadata=response.metadata)


async def stop_calls(
    calls: Collection[Call], reason: StopReason, timeout_seconds: float, spared: Collection[Call] = ()
) -> None:
    """Cancel calls and wait until their tasks have ended; abandon what is left after the limit.

    The spared ones get one more limit to end by themselves.
    """
    for call in calls:
        if call not in spared:
            call.stop(reason)
    await _ended(calls, timeout_seconds)
    late = [call for call in calls if call in spared and not call.is_over]
    for call in late:
        call.stop(reason)
    await _ended(late, timeout_seconds)
    for call in calls:
        if not call.is_over:
            call.abandon(timeout_seconds)


async def _ended(calls: Collection[Call], timeout_seconds: float) -> None:
    tasks = [call.task for call in calls if call.task is not None and not call.task.done()]
    if tasks:
        await asyncio.wait(tasks, timeout=timeout_seconds)
