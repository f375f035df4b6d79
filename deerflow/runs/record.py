"""What is remembered of threads, runs and their events, and which moves a run may make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from deerflow.errors import ConflictError


class RunStatus(StrEnum):
    """The statuses of a run, as the LangGraph API names them."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCESS = "success"
    ERROR = "error"
    TIMEOUT = "timeout"
    INTERRUPTED = "interrupted"


class ThreadStatus(StrEnum):
    """The statuses of a thread, as the LangGraph API names them."""

    IDLE = "idle"
    BUSY = "busy"
    INTERRUPTED = "interrupted"
    ERROR = "error"


HOST_LOST = "host_lost"
"""The `stop_reason` of a run that ended because its host did."""

ACTIVE_STATUSES = frozenset({RunStatus.PENDING, RunStatus.RUNNING})

LEGAL_MOVES: Mapping[RunStatus, frozenset[RunStatus]] = {
    RunStatus.PENDING: frozenset(
        {RunStatus.RUNNING, RunStatus.ERROR, RunStatus.TIMEOUT, RunStatus.INTERRUPTED}
    ),
    RunStatus.RUNNING: frozenset(
        {RunStatus.SUCCESS, RunStatus.ERROR, RunStatus.TIMEOUT, RunStatus.INTERRUPTED}
    ),
}


THREAD_STATUS_AFTER: Mapping[RunStatus, ThreadStatus] = {
    RunStatus.PENDING: ThreadStatus.BUSY,
    RunStatus.RUNNING: ThreadStatus.BUSY,
    RunStatus.SUCCESS: ThreadStatus.IDLE,
    RunStatus.INTERRUPTED: ThreadStatus.INTERRUPTED,
    RunStatus.ERROR: ThreadStatus.ERROR,
    RunStatus.TIMEOUT: ThreadStatus.ERROR,
}
"""What a run that comes to a status makes of its thread, unless other runs of it are active."""


class IllegalRunMoveError(ConflictError):
    """A run was to leave a terminal status, or to skip one."""

    def __init__(self, run_id: str, current: str, wanted: str) -> None:
        super().__init__(f"run {run_id} is {current!r} and cannot become {wanted!r}")
        self.run_id = run_id
        self.current = current
        self.wanted = wanted


class ThreadBusyError(ConflictError):
    """Another run of the thread is under way: this one has to wait, or is refused."""

    def __init__(self, thread_id: str, advice: str) -> None:
        super().__init__(f"thread {thread_id} has a run under way; {advice}")
        self.thread_id = thread_id


class RunLostError(ConflictError):
    """A host was to change a run that another host has taken up."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id} was taken up by another host")
        self.run_id = run_id


class RunClosedError(ConflictError):
    """A run that was stopped was to write a checkpoint."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id} was stopped, and writes nothing any more")
        self.run_id = run_id


class HostLostError(ConflictError):
    """A run's host is gone, and the run cannot go on elsewhere; the text says why."""

    def __init__(self, run_id: str, reason: str) -> None:
        super().__init__(f"the host of run {run_id} is gone, and the run cannot go on: {reason}")
        self.run_id = run_id


class StopRequestedError(ConflictError):
    """A run was to begin that somebody wants stopped; `reason` says why."""

    def __init__(self, run_id: str, reason: str) -> None:
        super().__init__(f"run {run_id} is to be stopped ({reason})")
        self.run_id = run_id
        self.reason = reason


def statuses_before(target: RunStatus) -> frozenset[RunStatus]:
    """The statuses from which a run may move to `target`."""
    return frozenset(source for source, targets in LEGAL_MOVES.items() if target in targets)


def utc_now() -> datetime:
    """The current moment, with its time zone."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class ThreadRecord:
    """One conversation. `user_id` is its owner; `metadata` is the client's, JSON only."""

    thread_id: str
    user_id: str | None = None
    created_at: datetime = field(default_factory=utc_now)
    updated_at: datetime = field(default_factory=utc_now)
    state_updated_at: datetime | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    status: ThreadStatus = ThreadStatus.IDLE


@dataclass(frozen=True)
class RunRecord:
    """One run. `kwargs` is what the client asked for, JSON only; `error`, `stop_reason` say how it ended.

    `host_id` is the host that has it, `attempt` how often hosts have begun it, `stop_requested` the reason
    for which somebody wants it stopped.
    """

    run_id: str
    thread_id: str
    assistant_id: str
    user_id: str | None = None
    status: RunStatus = RunStatus.PENDING
    created_at: datetime = field(default_factory=utc_now)
    updated_at: datetime = field(default_factory=utc_now)
    metadata: dict[str, Any] = field(default_factory=dict)
    kwargs: dict[str, Any] = field(default_factory=dict)
    multitask_strategy: str = "enqueue"
    error: str | None = None
    stop_reason: str | None = None
    host_id: str | None = None
    attempt: int = 0
    stop_requested: str | None = None


@dataclass(frozen=True)
class NewRunEvent:
    """An event to be kept. `category` groups types (`lifecycle`, `message`, `delegation`, `custom`)."""

    event_type: str
    category: str
    content: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True)
class StoredRunEvent:
    """A kept event; `seq` rises within its thread, without order between threads."""

    thread_id: str
    run_id: str
    seq: int
    event: NewRunEvent
