"""The ledger's one table, and what is asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    func,
    insert,
    select,
    text,
)
from sqlalchemy.schema import CreateIndex, CreateTable

_LOCK_KEY = 0x636F737473  # any number that no other program locks

metadata = MetaData()

entries = Table(
    "costs_entries",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("day", String(10), nullable=False),
    Column("run_id", Text, nullable=False),
    Column("task_id", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("calls", Integer, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("nanos", BigInteger, nullable=False),
    Column("currency", String(3), nullable=False),
    Index("costs_entries_by_run", "run_id"),
    Index("costs_entries_by_day", "day", "user_id"),
)

_COUNTS = ("calls", "input_tokens", "output_tokens", "nanos")
_SUMS = [func.sum(entries.c[name]).label(name) for name in _COUNTS]


@dataclass(frozen=True)
class CostEntry:
    """What one task has spent on one model. `day` is that of its end, in UTC."""

    day: str
    run_id: str
    task_id: str
    user_id: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    nanos: int
    currency: str


@dataclass(frozen=True)
class CostTable:
    """Entries in the host's database; `sessions` makes SQLAlchemy async sessions."""

    sessions: Any
    currency: str

    async def create(self) -> None:
        """Make the table where it is missing."""
        async with self.sessions() as session, session.begin():
            await (await session.connection()).run_sync(_create)

    async def write(self, rows: Sequence[CostEntry]) -> None:
        """Store entries, all or none."""
        async with self.sessions() as session, session.begin():
            await session.execute(insert(entries), [_storable(row) for row in rows])

    async def spent_on(self, day: str) -> dict[str, int]:
        """What each user has spent on a day, in billionths."""
        statement = select(entries.c.user_id, func.sum(entries.c.nanos)).where(entries.c.day == day)
        return {user: int(nanos) for user, nanos in await self._rows(statement.group_by(entries.c.user_id))}

    async def of_run(self, run_id: str) -> list[dict[str, Any]]:
        """What a run has spent on each model, its subagents included."""
        statement = select(entries.c.model, *_SUMS).where(entries.c.run_id == run_id)
        return await self._summed(statement.group_by(entries.c.model).order_by(entries.c.model))

    async def by_day_and_user(self, *, since: str) -> list[dict[str, Any]]:
        """What was spent from a day on, newest day first."""
        keys = [entries.c.day, entries.c.user_id, entries.c.model]
        statement = select(*keys, *_SUMS).where(entries.c.day >= since).group_by(*keys)
        return await self._summed(statement.order_by(entries.c.day.desc(), *keys[1:]))

    async def _summed(self, statement: Any) -> list[dict[str, Any]]:
        rows = [dict(row._mapping) for row in await self._rows(statement)]
        return [{**row, **{name: int(row[name]) for name in _COUNTS}} for row in rows]

    async def _rows(self, statement: Any) -> Sequence[Any]:
        statement = statement.where(entries.c.currency == self.currency)
        async with self.sessions() as session:
            return list(await session.execute(statement))


def _create(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":  # one process after the other: several may start at once
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
    connection.execute(CreateTable(entries, if_not_exists=True))
    for index in entries.indexes:
        connection.execute(CreateIndex(index, if_not_exists=True))


def _storable(row: CostEntry) -> dict[str, Any]:
    """The values of a row; ids of tool calls are a model's, and may hold what no database takes as text."""
    values = asdict(row)
    whole = row.task_id.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return {**values, "task_id": whole.replace("\0", "\ufffd")}
