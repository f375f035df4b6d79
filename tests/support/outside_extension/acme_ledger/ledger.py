"""The ledger itself, which the service opens and everyone else finds in the app store."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from deerflow_extension_api import RunEvidenceReader
from sqlalchemy import insert, select

from acme_ledger.tables import entries


@dataclass
class Ledger:
    """Writes and reads entries on the host's database."""

    session_factory: Any
    evidence: RunEvidenceReader
    currency: str
    observed: Counter[str] = field(default_factory=Counter)

    async def write(self, **entry: Any) -> None:
        async with self.session_factory() as session, session.begin():
            await session.execute(insert(entries).values(currency=self.currency, **entry))

    async def read(self) -> list[dict[str, Any]]:
        async with self.session_factory() as session:
            rows = await session.execute(select(entries).order_by(entries.c.id))
            return [dict(row._mapping) for row in rows]


@dataclass
class ModelCalls:
    """The model calls of one task."""

    count: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)

    def add(self) -> None:
        with self._lock:
            self.count += 1
