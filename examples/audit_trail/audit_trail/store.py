"""The chain in the host's database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import insert, select, update

from audit_trail import tables
from audit_trail.chain import Draft, Entry, Head, follows, sealed

_PAGE = 1000


@dataclass(frozen=True)
class Verification:
    """What a walk along the whole chain found. `broken_at` is the first place that does not fit."""

    entries: int
    head: str
    broken_at: int | None = None


@dataclass(frozen=True)
class ChainStore:
    """Appends to the chain and reads it; any number of processes may do so at once.

    `sessions` makes SQLAlchemy async sessions; `key` seals the chain, where there is one.
    """

    sessions: Any
    key: bytes = b""

    async def upgrade(self) -> None:
        """Make or change the tables as this version needs them."""
        async with self.sessions() as session, session.begin():
            await (await session.connection()).run_sync(tables.upgrade)

    async def append(self, drafts: Sequence[Draft]) -> Head:
        """Store the drafts in their order, all or none, and return the new head."""
        async with self.sessions() as session, session.begin():
            # A write first: it locks the head on PostgreSQL and the file on SQLite, so that nobody forks.
            await session.execute(update(tables.head).values(seq=tables.head.c.seq))
            entries = sealed(drafts, await self._head(session), self.key)
            await session.execute(insert(tables.entries), [asdict(entry) for entry in entries])
            head = Head(entries[-1].seq, entries[-1].digest)
            await session.execute(update(tables.head).values(seq=head.seq, digest=head.digest))
        return head

    async def head(self) -> Head:
        """Where the chain ends."""
        async with self.sessions() as session:
            return await self._head(session)

    async def read(self, *, after: int, limit: int, run_id: str | None = None) -> list[Entry]:
        """The entries after a place, oldest first, at most `limit`; of one run where that is given."""
        statement = select(tables.entries).where(tables.entries.c.seq > after)
        if run_id is not None:
            statement = statement.where(tables.entries.c.run_id == run_id)
        async with self.sessions() as session:
            rows = await session.execute(statement.order_by(tables.entries.c.seq).limit(limit))
            return [Entry(**row._mapping) for row in rows]

    async def verify(self) -> Verification:
        """Walk along the chain and compare its end with the head. Memory holds a thousand entries."""
        end, found = await self.head(), Head()
        while found.seq < end.seq:
            page = await self.read(after=found.seq, limit=min(_PAGE, end.seq - found.seq))
            for entry in page:
                if not follows(entry, found, self.key):
                    return Verification(end.seq, end.digest, broken_at=found.seq + 1)
                found = Head(entry.seq, entry.digest)
            if not page:
                return Verification(end.seq, end.digest, broken_at=found.seq + 1)
        broken_at = None if found == end else end.seq
        return Verification(end.seq, end.digest, broken_at)

    async def holds(self, seq: int, digest: str) -> bool:
        """Whether the chain still goes through a place that was noted earlier."""
        entries = await self.read(after=seq - 1, limit=1)
        return [(entry.seq, entry.digest) for entry in entries] == [(seq, digest)]

    async def _head(self, session: Any) -> Head:
        row = (await session.execute(select(tables.head.c.seq, tables.head.c.digest))).one()
        return Head(row.seq, row.digest)
