"""Recording never waits; storing keeps the order, tries again, and counts what it had no room for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest
from audit_trail import trail as trail_module
from audit_trail.chain import Draft, Head
from audit_trail.subject import Subject
from audit_trail.trail import Trail

SUBJECT = Subject("run", "thread", "task")


class Memory:
    """A store that fails as often as it is told, and may be held."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.drafts: list[Draft] = []
        self.open = asyncio.Event()
        self.open.set()

    async def append(self, drafts: list[Draft]) -> Head:
        await self.open.wait()
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the database is away")
        self.drafts += drafts
        return Head(len(self.drafts), "")


@contextmanager
def written(trail: Trail) -> Iterator[None]:
    writer = asyncio.ensure_future(trail.write())
    try:
        yield
    finally:
        writer.cancel()


def test_entries_are_stored_in_their_order_from_any_thread() -> None:
    async def story() -> None:
        memory = Memory()
        trail = Trail(memory)
        with written(trail):
            thread = Thread(target=lambda: [trail.record(f"event-{n}", SUBJECT) for n in range(1200)])
            thread.start()
            await asyncio.to_thread(thread.join)
            await trail.flush()
        assert [draft.event for draft in memory.drafts] == [f"event-{n}" for n in range(1200)]

    asyncio.run(story())


def test_a_database_that_is_away_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trail_module, "FIRST_RETRY_SECONDS", 0.001)

    async def story() -> None:
        memory = Memory(failures=3)
        trail = Trail(memory)
        with written(trail):
            trail.record("first", SUBJECT)
            await trail.flush()
            trail.record("second", SUBJECT)
            await trail.flush()
        assert [draft.event for draft in memory.drafts] == ["first", "second"]

    asyncio.run(story())


def test_what_there_is_no_room_for_is_counted_in_the_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trail_module, "MAX_PENDING", 3)

    async def story() -> None:
        memory = Memory()
        trail = Trail(memory)
        for number in range(5):
            trail.record(f"event-{number}", SUBJECT)
        with written(trail):
            await trail.flush()
            trail.record("later", SUBJECT)
            await trail.flush()
        events = [(draft.event, draft.detail) for draft in memory.drafts]
        assert events[:3] == [(f"event-{n}", "{}") for n in range(3)]
        assert sorted(events[3:]) == [("entries_lost", '{"count":2}'), ("later", "{}")]

    asyncio.run(story())
