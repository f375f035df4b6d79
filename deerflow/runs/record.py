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


ACTIVE_STATUSES = frozenset({RunStatus.PENDING, RunStatus.RUNNING})

LEGAL_MOVES: Mapping[RunStatus, frozenset[RunStatus]] = {
    RunStatus.PENDING: frozenset(
        {RunStatus.RUNNING, RunStatus.ERROR, RunStatus.TIMEOUT, RunStatus.INTERRUPTED}
    ),
    RunStatus.RUNNING: frozenset(
        {RunStatus.SUCCESS, RunStatus.ERROR, RunStatus.TIMEOUT, RunStatus.INTERRUPTED}
    ),
}


class IllegalRunMoveError(ConflictError):
    """A run was to leave a terminal status, or to skip one."""

    def __init__(self, run_id: str, current: str, wanted: str) -> None:
        super().__init__(f"run {run_id} is {current!r} and cannot become {wanted!r}")
        self.run_id = run_id
        self.current = current
        self.wanted = wanted


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
    """One run. `kwargs` is what the client asked for, JSON only; `error`, `stop_reason` say how it ended."""

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
