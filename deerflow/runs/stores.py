"""What a run needs to be remembered: the stores, as the run path sees them.

`deerflow.persistence` implements them once, over SQLAlchemy, for every backend.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from deerflow.runs.record import NewRunEvent, RunRecord, RunStatus, StoredRunEvent, ThreadRecord, ThreadStatus
from deerflow.runs.thread_ttl import ThreadExpiry, ThreadTtl, TtlStrategy


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


@dataclass(frozen=True)
class Admission:
    """A run that was recorded: its thread as it now is, its record, and the runs asked to stop for it."""

    thread: ThreadRecord
    run: RunRecord
    superseded: tuple[str, ...] = ()


class ThreadStore(Protocol):
    """Threads. `user_id=None` in a call means: whoever owns it."""

    async def create(self, thread: ThreadRecord, *, ttl: ThreadTtl | None = None) -> ThreadRecord:
        """Insert; where the id exists: `ConflictError`. Without `ttl` it lasts for ever."""

    async def get_or_create(self, thread: ThreadRecord, *, ttl: ThreadTtl | None = None) -> ThreadRecord:
        """Insert, or return what is there, which lasts as long as before; another owner's id raises
        `NotFoundError`. Safe under races."""

    async def get(self, thread_id: str, *, user_id: str | None = None) -> ThreadRecord | None: ...

    async def search(self, query: ThreadQuery) -> list[ThreadRecord]: ...

    async def count(self, query: ThreadQuery) -> int: ...

    async def merge_metadata(
        self,
        thread_id: str,
        metadata: Mapping[str, Any],
        *,
        only_absent: bool = False,
        ttl: ThreadTtl | None = None,
    ) -> ThreadRecord:
        """Merge the top-level keys atomically; with `only_absent` those that have a value keep it. With `ttl`
        the thread lasts so long from now on. A missing thread raises `NotFoundError`."""

    async def touch_state(self, thread_id: str, status: ThreadStatus | None = None) -> None:
        """Note that the thread's state changed now."""

    async def delete(self, thread_id: str) -> bool:
        """Remove the thread with its runs and events; whether it was there."""


class ThreadTtlStore(Protocol):
    """How long threads last; of one without a time to live nothing is known here."""

    async def get(self, thread_id: str) -> ThreadExpiry | None: ...

    async def due(self, now: datetime, limit: int) -> list[str]:
        """The ids of threads that may have expired, or of which something is left, at most `limit`, those
        first that are due for longest."""

    async def expire(self, thread_id: str, now: datetime) -> TtlStrategy | None:
        """In one transaction, see whether a thread has expired, and say what is to be done: with `delete` the
        thread is gone with its runs and events, and what it left is to be removed. `None` where it is not
        due, was changed, or has an active run. Of several callers one is told; unless it settles that, the
        thread is due again after `SWEEP_PAUSE`."""

    async def settle(self, thread_id: str, strategy: TtlStrategy, now: datetime) -> None:
        """Note that it was done. With `keep_latest` the thread is due again after its time to live."""

    async def postpone(self, thread_id: str, due_at: datetime) -> None:
        """Let a thread be due at another moment."""


class RunStore(Protocol):
    """Runs and their statuses."""

    async def create(
        self,
        run: RunRecord,
        *,
        thread: ThreadRecord | None = None,
        of_any_owner: bool = False,
        may_begin: bool = False,
    ) -> Admission:
        """In one transaction: `thread` inserted where it does not exist yet, its owner checked, the run
        inserted, `metadata.graph_id`/`assistant_id` stamped on the thread where absent or changed, and the
        thread's active runs asked to stop where `multitask_strategy` is `interrupt` or `rollback`.
        A run that `may_begin` is `running` at once where no other one of the thread is active; else it is
        `pending`. With `of_any_owner` a thread that is there may be anyone's, and the run is its owner's.
        `thread=None` and no such thread: `NotFoundError`; a foreign owner: `NotFoundError`; a known run id:
        `ConflictError`; `reject` and an active run of the thread: `ThreadBusyError`."""

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
        host_id: str | None = None,
    ) -> RunRecord:
        """In one transaction: a legal move (else `IllegalRunMoveError`), the thread's status that follows
        from it (or `thread_status`; `busy` as long as another run is active), the run's last events, and
        those keys of `thread_metadata` that have no value yet.
        A deleted run raises `NotFoundError`, one that `host_id` is named for and does not have
        `RunLostError`. At most one run of a thread is `running`: a second one raises `ThreadBusyError`. A run
        that is to be stopped does not begin: `StopRequestedError`."""

    async def get(self, run_id: str, *, thread_id: str | None = None) -> RunRecord | None: ...

    async def list_by_thread(
        self, thread_id: str, *, status: RunStatus | None = None, limit: int = 10, offset: int = 0
    ) -> list[RunRecord]:
        """Newest first."""

    async def list_active(
        self, *, thread_id: str | None = None, created_before: datetime | None = None
    ) -> list[RunRecord]:
        """Pending and running runs, oldest first."""

    async def request_stop(self, run_id: str, reason: str) -> bool:
        """Note that an active run is to stop, for the host that has it; the first reason stays. Whether the
        run is active."""

    async def delete(
        self,
        run_id: str,
        *,
        thread_id: str,
        host_id: str | None = None,
        thread_status: ThreadStatus = ThreadStatus.IDLE,
    ) -> bool:
        """Remove a run with its events; whether it was there (and `host_id`, where named, had it). Where no
        other run is active its thread is not busy any more, but `thread_status`."""


class HostStore(Protocol):
    """Which hosts live, and which runs each of them has. `leases_expire` tells whether a host that does not
    renew its lease in time loses its runs although its process may live."""

    leases_expire: bool

    async def enter(self, host_id: str, lease_seconds: float) -> None:
        """Count as alive from now on."""

    async def beat(self, host_id: str, lease_seconds: float) -> Mapping[str, str | None]:
        """Renew the lease; the ids of the active runs that the host has, with what asks each to stop."""

    async def owned(self, host_id: str) -> Mapping[str, str | None]:
        """The same without renewing."""

    async def inherit(self, host_id: str) -> Sequence[RunRecord]:
        """Bury hosts that are dead, and give their active runs to this one: those runs, oldest first. One
        that was running has one more attempt. Of several heirs each run goes to one."""

    async def leave(self, host_id: str) -> None:
        """Count no longer as alive."""


class RunEventStore(Protocol):
    """What happened in runs, kept in order."""

    async def append(
        self, thread_id: str, run_id: str, events: Sequence[NewRunEvent], *, host_id: str | None = None
    ) -> None:
        """Keep all of them, in order, or none. `NotFoundError` where there is no such run, or `host_id` is
        named and does not have it."""

    async def list(
        self, thread_id: str, run_id: str, *, after_seq: int | None = None, limit: int = 1000
    ) -> list[StoredRunEvent]: ...


@dataclass(frozen=True)
class RunStores:
    """The stores of one database. Without `hosts` nobody else has a part in it."""

    threads: ThreadStore
    ttls: ThreadTtlStore
    runs: RunStore
    events: RunEventStore
    hosts: HostStore | None = None
