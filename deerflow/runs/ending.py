"""How a run ended: decided once, then only reported."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from deerflow_extension_api import TaskOutcome

from deerflow.runs.record import HOST_LOST, HostLostError, RunLostError, RunStatus

ROLLBACK = "rollback"
"""The reason for which a run is stopped of which nothing is to stay."""

# Why runs are stopped; without one of these, an interrupted run waits for a person.
STOP_REASONS = frozenset(
    {"abandoned", "cancelled", "deleted", "disconnected", HOST_LOST, "interrupt", ROLLBACK, "shutdown"}
)


@dataclass(frozen=True)
class Ending:
    """`error` is `(type name, text)`; `interrupts` holds what a waiting run asks of a person."""

    status: RunStatus
    outcome: TaskOutcome
    error: tuple[str, str] | None = None
    stop_reason: str | None = None
    interrupts: tuple[dict[str, Any], ...] = ()


def completed(interrupts: tuple[dict[str, Any], ...], *, paused: bool, stop_reason: str | None) -> Ending:
    """The graph came to its end, or to a place where it waits for a person."""
    status = RunStatus.INTERRUPTED if paused else RunStatus.SUCCESS
    return Ending(status, TaskOutcome.COMPLETED, interrupts=interrupts, stop_reason=stop_reason)


def aborted(stop_reason: str) -> Ending:
    """Somebody stopped the run."""
    return Ending(RunStatus.INTERRUPTED, TaskOutcome.ABORTED, stop_reason=stop_reason)


def failed(error: BaseException) -> Ending:
    """The run could not go on."""
    text = str(error) or "no further text"
    stop_reason = HOST_LOST if isinstance(error, HostLostError) else None
    named = (type(error).__name__, text)
    return Ending(RunStatus.ERROR, TaskOutcome.FAILED, error=named, stop_reason=stop_reason)


def was_stopped(status: RunStatus, stop_reason: str | None) -> bool:
    """Whether a run that ended so was stopped by somebody, and does not wait for a person."""
    return status is RunStatus.INTERRUPTED and stop_reason in STOP_REASONS


def ending_of(story: asyncio.Task[Ending], stop_reason: str | None) -> Ending:
    """Read the ending off the story: an answer that is there counts, then who cancelled, then the failure.

    Of a run that is rolled back not even the answer counts: whoever asked for that was told so.
    """
    if not story.done():
        return aborted(stop_reason or "abandoned")
    # Asked for in any case: asyncio tells of errors that nobody asked for.
    error = None if story.cancelled() else story.exception()
    if stop_reason == ROLLBACK:
        return aborted(stop_reason)
    if story.cancelled():
        # Cancelled although nobody asked: some model or tool raised CancelledError on its own account.
        return (
            aborted(stop_reason) if stop_reason else failed(asyncio.CancelledError("raised inside the run"))
        )
    if error is None:
        return story.result()
    if isinstance(error, RunLostError):  # another host has it by now, and tells how it really ends
        return aborted(HOST_LOST)
    return aborted(stop_reason) if stop_reason else failed(error)
