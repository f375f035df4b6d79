"""How long threads last that nobody uses, and what becomes of them then."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

TtlStrategy = Literal["delete", "keep_latest"]

MAX_TTL_MINUTES: Final = 525_600_000.0
"""A thousand years: from any moment to one that every database can hold."""


SWEEP_PAUSE: Final = timedelta(minutes=5)
"""When a thread is looked at again that has a run, or could not be swept."""


@dataclass(frozen=True)
class ThreadTtl:
    """After so many minutes in which nothing changed a thread, it is deleted, or loses its older states."""

    minutes: float
    strategy: TtlStrategy = "delete"

    @property
    def span(self) -> timedelta:
        """The same minutes."""
        return timedelta(minutes=self.minutes)


@dataclass(frozen=True)
class ThreadExpiry:
    """When a thread expires, unless something changes it before."""

    ttl: ThreadTtl
    expires_at: datetime
