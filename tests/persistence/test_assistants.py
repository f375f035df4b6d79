"""Assistants and their versions on every database."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from deerflow.errors import ConflictError, NotFoundError
from deerflow.persistence import Assistants, Database
from deerflow.persistence.assistants import AssistantQuery, AssistantRecord
from deerflow.runs.record import utc_now
from deerflow.runs.request import ASSISTANT_ID


def _assistant(*, age_seconds: int = 0, **fields: Any) -> AssistantRecord:
    made = utc_now() - timedelta(seconds=age_seconds)
    return AssistantRecord(fields.pop("assistant_id", str(uuid4())), made, made, **fields)


@pytest.fixture
def assistants(database: Database) -> Assistants:
    return Assistants(database.transactions)


async def test_assistant_is_read_as_it_was_written(assistants: Assistants) -> None:
    whole = _assistant(
        user_id="alice", name="Ä", description="d", config={"recursion_limit": 3},
        context={"goal": "g\x00", "approve_tools": ["a"]}, metadata={"x": {"y": [1, 2]}},
    )  # fmt: skip
    await assistants.create(whole)
    read = await assistants.get(whole.assistant_id)
    assert read is not None
    assert vars(read) == {**vars(whole), "context": {"goal": "g�", "approve_tools": ["a"]}}
    with pytest.raises(ConflictError):
        await assistants.create(whole)
    await assistants.ensure(whole)
    assert len(await assistants.versions(whole.assistant_id, metadata=None, limit=10, offset=0)) == 1


async def test_own_assistants_and_the_systems_are_visible(assistants: Assistants) -> None:
    system = _assistant(age_seconds=4, assistant_id=ASSISTANT_ID)
    mine, theirs = _assistant(age_seconds=3, user_id="alice"), _assistant(age_seconds=2, user_id="bob")
    nobodys = _assistant(age_seconds=1)
    for assistant in (system, mine, theirs, nobodys):
        await assistants.create(assistant)
    for visible_to, wanted in (("alice", [mine, system]), (None, [nobodys, theirs, mine, system])):
        found = await assistants.search(AssistantQuery(visible_to))
        assert [item.assistant_id for item in found] == [item.assistant_id for item in wanted]
        assert await assistants.count(AssistantQuery(visible_to)) == len(wanted)
    assert await assistants.get(theirs.assistant_id, visible_to="alice") is None
    assert await assistants.get(ASSISTANT_ID, visible_to="alice") == system


async def test_assistants_are_found_by_name_and_metadata(assistants: Assistants) -> None:
    for name, n in (("Quick_1", 1), ("quick%2", 2), ("slow", 3)):
        await assistants.create(_assistant(name=name, metadata={"n": n, "in": {"a": 1, "b": n}}))

    async def names(**fields: Any) -> list[str]:
        query = AssistantQuery(sort_by="name", sort_order="asc", **fields)
        return [item.name for item in await assistants.search(query)]

    assert await names(name="QUICK") == ["quick%2", "Quick_1"]
    assert await names(name="%") == ["quick%2"]
    assert await names(name="_") == ["Quick_1"]
    assert await names(name="\x00") == []
    assert await names(metadata={"in": {"b": 3}}) == ["slow"]
    assert await names(graph_id="other") == []
    assert await names(limit=1, offset=1) == ["Quick_1"]


async def test_versions_never_share_a_number(assistants: Assistants) -> None:
    assistant_id = (await assistants.create(_assistant(metadata={"first": True}))).assistant_id
    await asyncio.gather(*(assistants.patch(assistant_id, {"metadata": {str(n): n}}) for n in range(8)))
    versions = await assistants.versions(assistant_id, metadata={"first": True}, limit=100, offset=0)
    assert [version.version for version in versions] == list(range(9, 0, -1))
    assert len(versions[0].metadata) == 9
    back = await assistants.set_latest(assistant_id, 1)
    assert (back.version, back.metadata) == (1, {"first": True})
    assert (await assistants.patch(assistant_id, {"name": "later"})).version == 10
    with pytest.raises(NotFoundError, match="no version 99"):
        await assistants.set_latest(assistant_id, 99)


async def test_removed_assistant_leaves_no_version(assistants: Assistants) -> None:
    assistant = await assistants.create(_assistant())
    assert await assistants.delete(assistant.assistant_id)
    assert not await assistants.delete(assistant.assistant_id)
    assert await assistants.versions(assistant.assistant_id, metadata=None, limit=10, offset=0) == []
    for change in (
        assistants.patch(assistant.assistant_id, {}),
        assistants.set_latest(assistant.assistant_id, 1),
    ):
        with pytest.raises(NotFoundError):
            await change
