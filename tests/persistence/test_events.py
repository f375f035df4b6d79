"""Events keep their order within a thread, whoever writes them."""

from __future__ import annotations

import asyncio

import pytest
from support.records import new_event, new_thread, start_run

from deerflow.errors import NotFoundError
from deerflow.persistence import Database
from deerflow.runs.record import NewRunEvent, RunStatus


async def test_kept_events_come_back_as_they_were(database: Database) -> None:
    run = await start_run(database)
    events = [
        new_event({"z": 1, "a": [None, 1.5, "é"]}, metadata={"m": True}),
        NewRunEvent("message", "message", None),
        new_event(1.0),
        new_event("text", event_type="delegation", category="delegation"),
    ]
    await database.stores.events.append(run.thread_id, run.run_id, events)
    kept = await database.stores.events.list(run.thread_id, run.run_id)
    assert [stored.event for stored in kept] == events
    assert [type(stored.event.content) for stored in kept] == [dict, type(None), float, str]
    assert {(stored.thread_id, stored.run_id) for stored in kept} == {(run.thread_id, run.run_id)}
    assert [list(stored.event.content) for stored in kept[:1]] == [["z", "a"]]


async def test_numbers_rise_over_all_runs_of_a_thread(database: Database) -> None:
    thread = new_thread()
    first, second = await start_run(database, thread), await start_run(database, thread)
    await database.stores.events.append(first.thread_id, first.run_id, [new_event(), new_event()])
    await database.stores.events.append(second.thread_id, second.run_id, [new_event()])
    await database.stores.runs.move(first.run_id, RunStatus.ERROR, events=[new_event(), new_event()])
    assert [
        stored.seq
        for run in (first, second)
        for stored in await database.stores.events.list(thread.thread_id, run.run_id)
    ] == [1, 2, 4, 5, 3]


async def test_list_pages_after_a_number(database: Database) -> None:
    run = await start_run(database)
    await database.stores.events.append(run.thread_id, run.run_id, [new_event(n) for n in range(5)])
    page = await database.stores.events.list(run.thread_id, run.run_id, after_seq=1, limit=2)
    assert [(stored.seq, stored.event.content) for stored in page] == [(2, 1), (3, 2)]
    assert await database.stores.events.list(run.thread_id, run.run_id, after_seq=5) == []
    assert await database.stores.events.list("another", run.run_id) == []


async def test_concurrent_writers_get_numbers_of_their_own(database: Database) -> None:
    run = await start_run(database)
    batches = [[new_event([writer, n]) for n in range(3)] for writer in range(12)]
    await asyncio.gather(
        *(database.stores.events.append(run.thread_id, run.run_id, batch) for batch in batches)
    )
    kept = await database.stores.events.list(run.thread_id, run.run_id)
    assert [stored.seq for stored in kept] == list(range(1, 37))
    written = [stored.event.content for stored in kept]
    for position in range(0, 36, 3):
        writer = written[position][0]
        assert written[position : position + 3] == [[writer, n] for n in range(3)]


async def test_events_of_an_unknown_run_are_refused(database: Database) -> None:
    run = await start_run(database)
    other = await start_run(database)
    for thread_id, run_id in (
        (run.thread_id, "unknown"),
        ("unknown", run.run_id),
        (other.thread_id, run.run_id),
    ):
        with pytest.raises(NotFoundError):
            await database.stores.events.append(thread_id, run_id, [new_event()])
    await database.stores.events.append("unknown", "unknown", [])


async def test_refused_batch_leaves_nothing_behind(database: Database) -> None:
    run = await start_run(database)
    with pytest.raises(ValueError, match="JSON"):
        await database.stores.events.append(run.thread_id, run.run_id, [new_event(1), new_event({1, 2})])
    await database.stores.events.append(run.thread_id, run.run_id, [new_event(2)])
    assert [stored.seq for stored in await database.stores.events.list(run.thread_id, run.run_id)] == [1]
