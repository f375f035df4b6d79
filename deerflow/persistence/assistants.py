"""The assistants of one database, each with all its versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, delete, func, insert, or_, select, true, update
from sqlalchemy.engine import Connection, Row

from deerflow.errors import ConflictError, NotFoundError
from deerflow.persistence.assistant_tables import assistant_versions, assistants
from deerflow.persistence.columns import clean_text
from deerflow.persistence.matching import contains_json
from deerflow.persistence.threads import DIALECTS
from deerflow.persistence.transactions import Transactions
from deerflow.runs.record import utc_now
from deerflow.runs.request import ASSISTANT_ID, GRAPH_ID

VERSIONED: Final = ("graph_id", "name", "description", "config", "context", "metadata")
"""What a version of an assistant consists of."""


@dataclass(frozen=True)
class AssistantRecord:
    """A graph with the wishes that its runs begin with. `user_id` is the owner."""

    assistant_id: str
    created_at: datetime
    updated_at: datetime
    user_id: str | None = None
    graph_id: str = GRAPH_ID
    name: str = "Untitled"
    description: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    context: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    version: int = 1


@dataclass(frozen=True)
class AssistantQuery:
    """Which assistants to list: those of `visible_to` (None: of everyone) and the system's."""

    visible_to: str | None = None
    graph_id: str | None = None
    name: str | None = None
    metadata: Mapping[str, Any] | None = None
    limit: int = 10
    offset: int = 0
    sort_by: str = "created_at"
    sort_order: str = "desc"


class Assistants:
    """Assistants in SQL. `visible_to=None` means: whoever owns it; the system's are everybody's."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def create(self, assistant: AssistantRecord) -> AssistantRecord:
        """Insert; where the id exists: `ConflictError`."""
        if not await self._transactions.write(lambda connection: _insert(connection, assistant)):
            raise ConflictError(f"assistant {assistant.assistant_id} exists already")
        return assistant

    async def ensure(self, assistant: AssistantRecord) -> None:
        """Insert where the id does not exist."""
        await self._transactions.write(lambda connection: _insert(connection, assistant))

    async def get(self, assistant_id: str, *, visible_to: str | None = None) -> AssistantRecord | None:
        """The newest version."""
        statement = select(assistants).where(
            _is_visible(visible_to), assistants.c.assistant_id == assistant_id
        )
        row = await self._transactions.read(lambda connection: connection.execute(statement).one_or_none())
        return None if row is None else _record(row)

    async def search(self, query: AssistantQuery) -> list[AssistantRecord]:
        return await self._transactions.read(lambda connection: _search(connection, query))

    async def count(self, query: AssistantQuery) -> int:
        return await self._transactions.read(lambda connection: _count(connection, query))

    async def patch(self, assistant_id: str, changes: Mapping[str, Any]) -> AssistantRecord:
        """Add a version with `changes`; `metadata` is merged by key. `NotFoundError` where it is missing."""
        return await self._transactions.write(lambda connection: _patch(connection, assistant_id, changes))

    async def versions(
        self, assistant_id: str, *, metadata: Mapping[str, Any] | None, limit: int, offset: int
    ) -> list[AssistantRecord]:
        """The versions, newest first."""
        return await self._transactions.read(
            lambda connection: _versions(connection, assistant_id, metadata, limit, offset)
        )

    async def set_latest(self, assistant_id: str, version: int) -> AssistantRecord:
        """Let an old version be the one that counts. `NotFoundError` where there is none of that number."""
        return await self._transactions.write(
            lambda connection: _set_latest(connection, assistant_id, version)
        )

    async def delete(self, assistant_id: str) -> bool:
        """Remove the assistant with its versions; whether it was there."""
        statement = delete(assistants).where(assistants.c.assistant_id == assistant_id)
        return await self._transactions.write(lambda connection: connection.execute(statement).rowcount > 0)


def _insert(connection: Connection, assistant: AssistantRecord) -> bool:
    statement = DIALECTS[connection.dialect.name].insert(assistants).values(vars(assistant))
    made = statement.on_conflict_do_nothing().returning(assistants.c.assistant_id)
    if connection.execute(made).one_or_none() is None:
        return False
    _insert_version(connection, assistant, assistant.created_at)
    return True


def _insert_version(connection: Connection, assistant: AssistantRecord, moment: datetime) -> None:
    values = {name: getattr(assistant, name) for name in ("assistant_id", "version", *VERSIONED)}
    connection.execute(insert(assistant_versions), {**values, "created_at": moment})


def _patch(connection: Connection, assistant_id: str, changes: Mapping[str, Any]) -> AssistantRecord:
    current = _locked(connection, assistant_id)
    newest = select(func.max(assistant_versions.c.version)).where(
        assistant_versions.c.assistant_id == assistant_id
    )
    values = {name: getattr(current, name) for name in VERSIONED} | dict(changes)
    values["metadata"] = {**current.metadata, **changes.get("metadata", {})}
    values["version"] = connection.execute(newest).scalar_one() + 1
    patched = _update(connection, assistant_id, values)
    _insert_version(connection, patched, patched.updated_at)
    return patched


def _set_latest(connection: Connection, assistant_id: str, version: int) -> AssistantRecord:
    _locked(connection, assistant_id)
    statement = select(assistant_versions).where(
        assistant_versions.c.assistant_id == assistant_id, assistant_versions.c.version == version
    )
    row = connection.execute(statement).one_or_none()
    if row is None:
        raise NotFoundError(f"assistant {assistant_id} has no version {version}")
    values = {name: row._mapping[name] for name in ("version", *VERSIONED)}
    return _update(connection, assistant_id, values)


def _locked(connection: Connection, assistant_id: str) -> AssistantRecord:
    statement = select(assistants).where(assistants.c.assistant_id == assistant_id).with_for_update()
    row = connection.execute(statement).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no assistant {assistant_id}")
    return _record(row)


def _update(connection: Connection, assistant_id: str, values: Mapping[str, Any]) -> AssistantRecord:
    statement = (
        update(assistants)
        .where(assistants.c.assistant_id == assistant_id)
        .values({**values, "updated_at": utc_now()})
        .returning(*assistants.c)
    )
    return _record(connection.execute(statement).one())


def _versions(
    connection: Connection, assistant_id: str, metadata: Mapping[str, Any] | None, limit: int, offset: int
) -> list[AssistantRecord]:
    statement = select(assistant_versions).where(assistant_versions.c.assistant_id == assistant_id)
    if metadata:
        statement = statement.where(contains_json(connection, assistant_versions.c.metadata, metadata))
    statement = statement.order_by(assistant_versions.c.version.desc()).limit(limit).offset(offset)
    return [
        AssistantRecord(**row._mapping, updated_at=row.created_at) for row in connection.execute(statement)
    ]


def _search(connection: Connection, query: AssistantQuery) -> list[AssistantRecord]:
    column: ColumnElement[Any] = assistants.c[query.sort_by]
    if query.sort_by in ("name", "graph_id"):
        column = func.lower(column)
    order = [column, assistants.c.assistant_id]
    statement = select(assistants).where(_matches(connection, query))
    statement = statement.order_by(*(o.asc() if query.sort_order == "asc" else o.desc() for o in order))
    return [_record(row) for row in connection.execute(statement.limit(query.limit).offset(query.offset))]


def _count(connection: Connection, query: AssistantQuery) -> int:
    statement = select(func.count()).select_from(assistants).where(_matches(connection, query))
    return connection.execute(statement).scalar_one()


def _matches(connection: Connection, query: AssistantQuery) -> ColumnElement[bool]:
    condition = _is_visible(query.visible_to)
    if query.graph_id is not None:
        condition &= assistants.c.graph_id == query.graph_id
    if query.name:
        condition &= func.lower(assistants.c.name).contains(clean_text(query.name).lower(), autoescape=True)
    if query.metadata:
        condition &= contains_json(connection, assistants.c.metadata, query.metadata)
    return condition


def _is_visible(visible_to: str | None) -> ColumnElement[bool]:
    if visible_to is None:
        return true()
    return or_(assistants.c.user_id == visible_to, assistants.c.assistant_id == ASSISTANT_ID)


def _record(row: Row[Any]) -> AssistantRecord:
    return AssistantRecord(**row._mapping)
