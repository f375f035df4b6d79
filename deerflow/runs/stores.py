"""What a run needs to be remembered: the stores, as the run path sees them.

`deerflow.persistence` implements them once, over SQLAlchemy, for every backend.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from deerflow.runs.record import NewRunEvent, RunRecord, RunStatus, StoredRunEvent, ThreadRecord, ThreadStatus


@dataclass(frozen=True)
class ThreadQuery:
    """Which threads to list. `metadata` and `values` match when they are contained in the thread's."""

    user_id: str | None = None
    metadata: Mapping[str, Any] | None = None
    status: ThreadStatus | None = None
    ids: Collection[str] | None = None
    limit: int = 10
    offset: int = 0
    sort_by: str = "created_at"
    sort_order: str = "desc"


class ThreadStore(Protocol):
    """Threads. `user_id=None` in a call means: whoever owns it."""

    async def create(self, thread: ThreadRecord) -> ThreadRecord:
        """Insert; where the id exists: `ConflictError`."""

    async def get_or_create(self, thread: ThreadRecord) -> ThreadRecord:
        """Insert, or return what is there; another owner's id raises `NotFoundError`. Safe under races."""

    async def get(self, thread_id: str, *, user_id: str | None = None) -> ThreadRecord | None: ...

    async def search(self, query: ThreadQuery) -> list[ThreadRecord]: ...

    async def count(self, query: ThreadQuery) -> int: ...

    async def merge_metadata(
        self, thread_id: str, metadata: Mapping[str, Any], *, only_absent: bool = False
    ) -> ThreadRecord:
        """Merge the top-level keys atomically; with `only_absent` those that have a value keep it.
        A missing thread raises `NotFoundError`."""

    async def touch_state(self, thread_id: str, status: ThreadStatus | None = None) -> None:
        """Note that the thread's state changed now."""

    async def delete(self, thread_id: str) -> bool:
        """Remove the thread with its runs and events; whether it was there."""


class RunStore(Protocol):
    """Runs and their statuses."""

    async def create(self, run: RunRecord, *, thread: ThreadRecord | None = None) -> ThreadRecord:
        """In one transaction: `thread` inserted where it does not exist yet, its owner checked, the run
        inserted, `metadata.graph_id`/`assistant_id` stamped on the thread where absent or changed.
        `thread=None` and no such thread: `NotFoundError`; a foreign owner: `NotFoundError`; a known run id:
        `ConflictError`."""

    async def move(
        self,
        run_id: str,
        status: RunStatus,
        *,
        error: str | None = None,
        stop_reason: str | None = None,
        events: Sequence[NewRunEvent] = (),
        thread_status: ThreadStatus | None = None,
        thread_metadata: Mapping[str, Any] | None = None,
    ) -> RunRecord:
        """In one transaction: a legal move (else `IllegalRunMoveError`), the thread's status that follows
        from it (or `thread_status`; `busy` as long as another run is active), the run's last events, and
        those keys of `thread_metadata` that have no value yet.
        A deleted run raises `NotFoundError`. At most one run of a thread is `running`: a second one raises
        `ConflictError`."""

    async def get(self, run_id: str, *, thread_id: str | None = None) -> RunRecord | None: ...

    async def list_by_thread(
        self, thread_id: str, *, status: RunStatus | None = None, limit: int = 10, offset: int = 0
    ) -> list[RunRecord]:
        """Newest first."""

    async def list_active(
        self, *, thread_id: str | None = None, created_before: datetime | None = None
    ) -> list[RunRecord]:
        """Pending and running runs, oldest first."""

    async def delete(self, run_id: str, *, thread_id: str) -> bool: ...


class RunEventStore(Protocol):
    """What happened in runs, kept in order."""

    async def append(self, thread_id: str, run_id: str, events: Sequence[NewRunEvent]) -> None:
        """Keep all of them, in order, or none."""

    async def list(
        self, thread_id: str, run_id: str, *, after_seq: int | None = None, limit: int = 1000
    ) -> list[StoredRunEvent]: ...


@dataclass(frozen=True)
class RunStores:
    """The three stores of one database."""

    threads: ThreadStore
    runs: RunStore
    events: RunEventStore
