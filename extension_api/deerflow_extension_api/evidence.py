"""Read-only access to what runs did, for services that audit or export it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol


class InvalidRunEvidenceCursor(ValueError):
    """The cursor is malformed, of an unsupported version, or from another scope. Start again with `None`."""


@dataclass(frozen=True)
class RunStatusView:
    """Where a run stands. Times are ISO 8601 text."""

    thread_id: str = ""
    run_id: str = ""
    status: str = ""
    created_at: str = ""
    updated_at: str = ""
    error: str | None = None
    stop_reason: str | None = None


@dataclass(frozen=True)
class RunEventView:
    """One event of a run. `seq` grows within a thread; `content` and `metadata` are detached copies."""

    thread_id: str = ""
    run_id: str = ""
    seq: int = 0
    event_type: str = ""
    category: str = ""
    content: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: str = ""


@dataclass(frozen=True)
class RunPage:
    """Some changed runs. `next_cursor` continues after them, also later when `has_more` is false."""

    items: tuple[RunStatusView, ...] = ()
    next_cursor: str | None = None
    has_more: bool = False


@dataclass(frozen=True)
class RunEventPage:
    """Some events of one run in order of `seq`. `next_after_seq` continues after them."""

    items: tuple[RunEventView, ...] = ()
    next_after_seq: int | None = None
    has_more: bool = False


class RunEvidenceReader(Protocol):
    """Reads runs and their events. `limit` is 1..2000, `after_seq` not negative, else `ValueError`.

    A method that a host does not offer raises `NotImplementedError`.
    """

    async def list_changed_runs(self, *, cursor: str | None, limit: int) -> RunPage:
        """Return runs that changed after `cursor`, oldest change first; `None` starts at the beginning.

        The cursor is opaque and bound to its scope, else `InvalidRunEvidenceCursor`. A run that changes after
        it was returned may come again; one that was not returned is never skipped. A deleted run leaves
        no trace here.
        """
        raise _not_offered("list_changed_runs")

    async def list_run_events(
        self, *, thread_id: str, run_id: str, after_seq: int | None, limit: int
    ) -> RunEventPage:
        """Return the run's events with a `seq` above `after_seq`, from the first where that is `None`."""
        raise _not_offered("list_run_events")

    async def get_run_status(self, *, thread_id: str, run_id: str) -> RunStatusView | None:
        """Return where the run stands, `None` for one that is unknown or deleted."""
        raise _not_offered("get_run_status")


def _not_offered(method: str) -> NotImplementedError:
    return NotImplementedError(f"this run evidence reader does not offer {method}()")
