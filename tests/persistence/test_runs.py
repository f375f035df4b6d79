"""Runs move only as they may, and their thread follows."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from support.records import new_event, new_run, new_thread, start_run

from deerflow.config import AppConfig
from deerflow.errors import ConflictError, NotFoundError
from deerflow.persistence import Database, open_database
from deerflow.runs.record import (
    LEGAL_MOVES,
    IllegalRunMoveError,
    RunRecord,
    RunStatus,
    ThreadRecord,
    ThreadStatus,
)
from deerflow.runs.stores import ThreadQuery


async def thread_of(database: Database, thread_id: str) -> ThreadRecord:
    thread = await database.stores.threads.get(thread_id)
    assert thread is not None
    return thread


async def test_created_run_comes_back_as_it_was(database: Database) -> None:
    thread = new_thread()
    run = new_run(
        thread, kwargs={"z": [1], "a": {"é": "\u2028"}}, metadata={"m": 1}, multitask_strategy="reject"
    )
    await database.stores.runs.create(run, thread=thread)
    assert await database.stores.runs.get(run.run_id) == run
    assert await database.stores.runs.get(run.run_id, thread_id=thread.thread_id) == run
    assert await database.stores.runs.get(run.run_id, thread_id="another") is None


async def test_create_makes_the_thread_busy_and_stamps_it(database: Database) -> None:
    thread = new_thread(metadata={"mine": 1})
    run = new_run(thread, metadata={"graph_id": "lead_agent"}, assistant_id="one")
    entered = (await database.stores.runs.create(run, thread=thread)).thread
    assert entered.metadata == {"mine": 1, "assistant_id": "one", "graph_id": "lead_agent"}
    assert entered.status is ThreadStatus.BUSY
    assert entered == await thread_of(database, thread.thread_id)
    await database.stores.runs.create(new_run(thread, assistant_id="two"))
    restamped = await thread_of(database, thread.thread_id)
    assert restamped.metadata == {"mine": 1, "assistant_id": "two", "graph_id": "lead_agent"}


async def test_create_keeps_the_metadata_of_a_thread_that_is_there(database: Database) -> None:
    thread = await database.stores.threads.create(new_thread(metadata={"mine": 1}))
    await database.stores.runs.create(new_run(thread), thread=replace(thread, metadata={"other": 2}))
    assert (await thread_of(database, thread.thread_id)).metadata == {"mine": 1, "assistant_id": "lead"}


async def test_create_refuses_a_missing_or_foreign_thread(database: Database) -> None:
    thread = new_thread("ada")
    with pytest.raises(NotFoundError):
        await database.stores.runs.create(new_run(thread))
    await database.stores.threads.create(thread)
    stranger = new_thread("bob", thread_id=thread.thread_id)
    for given in (None, stranger):
        with pytest.raises(NotFoundError):
            await database.stores.runs.create(new_run(stranger), thread=given)
    assert await database.stores.runs.list_by_thread(thread.thread_id) == []
    assert (await thread_of(database, thread.thread_id)).status is ThreadStatus.IDLE


async def test_create_refuses_a_known_run_and_changes_nothing(database: Database) -> None:
    run = await start_run(database)
    other = new_thread()
    with pytest.raises(ConflictError, match=run.run_id):
        await database.stores.runs.create(replace(run, thread_id=other.thread_id), thread=other)
    assert await database.stores.threads.get(other.thread_id) is None


@pytest.mark.parametrize("source", [status for status in RunStatus if status is not RunStatus.PENDING])
async def test_only_legal_moves_are_made(database: Database, source: RunStatus) -> None:
    for target in RunStatus:
        run = await start_run(database)
        if source is RunStatus.SUCCESS:
            await database.stores.runs.move(run.run_id, RunStatus.RUNNING)
        await database.stores.runs.move(run.run_id, source)
        if target in LEGAL_MOVES.get(source, ()):
            assert (await database.stores.runs.move(run.run_id, target)).status is target
            continue
        with pytest.raises(IllegalRunMoveError) as raised:
            await database.stores.runs.move(run.run_id, target, events=[new_event()])
        assert (raised.value.current, raised.value.wanted) == (source, target)
        assert (await database.stores.runs.get(run.run_id)).status is source  # type: ignore[union-attr]
        assert await database.stores.events.list(run.thread_id, run.run_id) == []


@pytest.mark.parametrize(
    ("end", "thread_status"),
    [
        (RunStatus.SUCCESS, ThreadStatus.IDLE),
        (RunStatus.ERROR, ThreadStatus.ERROR),
        (RunStatus.TIMEOUT, ThreadStatus.ERROR),
        (RunStatus.INTERRUPTED, ThreadStatus.INTERRUPTED),
    ],
)
async def test_thread_follows_its_run(
    database: Database, end: RunStatus, thread_status: ThreadStatus
) -> None:
    run = await start_run(database)
    await database.stores.runs.move(run.run_id, RunStatus.RUNNING)
    assert (await thread_of(database, run.thread_id)).status is ThreadStatus.BUSY
    ended = await database.stores.runs.move(
        run.run_id, end, error="why", stop_reason="because", events=[new_event("last")]
    )
    assert (ended.status, ended.error, ended.stop_reason) == (end, "why", "because")
    assert ended.updated_at > run.updated_at
    assert ended == await database.stores.runs.get(run.run_id)
    assert (await thread_of(database, run.thread_id)).status is thread_status
    kept = await database.stores.events.list(run.thread_id, run.run_id)
    assert [stored.event.content for stored in kept] == ["last"]


async def test_thread_status_may_be_named(database: Database) -> None:
    run = await start_run(database)
    await database.stores.runs.move(run.run_id, RunStatus.INTERRUPTED, thread_status=ThreadStatus.IDLE)
    assert (await thread_of(database, run.thread_id)).status is ThreadStatus.IDLE


async def test_thread_stays_busy_while_another_run_is_active(database: Database) -> None:
    first = await start_run(database)
    thread = await thread_of(database, first.thread_id)
    second = await start_run(database, thread)
    await database.stores.runs.move(first.run_id, RunStatus.ERROR)
    assert (await thread_of(database, thread.thread_id)).status is ThreadStatus.BUSY
    await database.stores.runs.move(second.run_id, RunStatus.INTERRUPTED)
    assert (await thread_of(database, thread.thread_id)).status is ThreadStatus.INTERRUPTED


async def test_at_most_one_run_of_a_thread_runs(database: Database) -> None:
    first = await start_run(database)
    thread = await thread_of(database, first.thread_id)
    rivals = [first, *[await start_run(database, thread) for _ in range(7)]]
    results = await asyncio.gather(
        *(database.stores.runs.move(rival.run_id, RunStatus.RUNNING) for rival in rivals),
        return_exceptions=True,
    )
    refused = [result for result in results if isinstance(result, ConflictError)]
    assert len(refused) == len(rivals) - 1
    running = await database.stores.runs.list_by_thread(thread.thread_id, status=RunStatus.RUNNING)
    assert len(running) == 1


async def test_moving_a_deleted_run_is_refused(database: Database) -> None:
    run = await start_run(database)
    assert await database.stores.runs.delete(run.run_id, thread_id=run.thread_id) is True
    assert await database.stores.runs.delete(run.run_id, thread_id=run.thread_id) is False
    with pytest.raises(NotFoundError, match=run.run_id):
        await database.stores.runs.move(run.run_id, RunStatus.RUNNING)


async def test_deleting_the_last_active_run_frees_the_thread(database: Database) -> None:
    run = await start_run(database)
    await database.stores.events.append(run.thread_id, run.run_id, [new_event()])
    await database.stores.runs.delete(run.run_id, thread_id=run.thread_id)
    assert (await thread_of(database, run.thread_id)).status is ThreadStatus.IDLE
    assert await database.stores.events.list(run.thread_id, run.run_id) == []


async def test_a_run_is_deleted_only_with_its_thread(database: Database) -> None:
    run = await start_run(database)
    assert await database.stores.runs.delete(run.run_id, thread_id="another") is False
    assert await database.stores.runs.get(run.run_id) == run


async def test_runs_of_a_thread_are_listed_newest_first(database: Database) -> None:
    thread = new_thread()
    made = [
        await start_run(database, thread, created_at=thread.created_at + timedelta(seconds=n))
        for n in range(4)
    ]
    await start_run(database)
    listed = await database.stores.runs.list_by_thread(thread.thread_id, limit=2, offset=1)
    assert listed == [made[2], made[1]]
    await database.stores.runs.move(made[0].run_id, RunStatus.ERROR)
    failed = await database.stores.runs.list_by_thread(thread.thread_id, status=RunStatus.ERROR)
    assert [run.run_id for run in failed] == [made[0].run_id]


async def test_active_runs_are_listed_oldest_first(database: Database) -> None:
    thread = new_thread()
    moments = [thread.created_at + timedelta(seconds=n) for n in range(3)]
    made = [await start_run(database, created_at=moment) for moment in reversed(moments)]
    ended = await start_run(database)
    await database.stores.runs.move(ended.run_id, RunStatus.TIMEOUT)
    assert await database.stores.runs.list_active() == made[::-1]
    assert await database.stores.runs.list_active(created_before=moments[1]) == [made[2]]
    assert await database.stores.runs.list_active(thread_id=made[0].thread_id) == [made[0]]


async def test_any_mixture_of_changes_ends_without_a_deadlock(lasting_config: AppConfig) -> None:
    """Two hosts create, move, annotate and delete on the same few threads."""
    chance = random.Random(11)
    threads = [new_thread() for _ in range(3)]
    started: list[RunRecord] = []

    async def change_something(database: Database) -> None:
        thread, run = chance.choice(threads), chance.choice(started)
        stores = database.stores
        changes: list[Callable[[], Awaitable[object]]] = [
            lambda: start_run(database, thread),
            lambda: stores.runs.move(run.run_id, RunStatus.RUNNING),
            lambda: stores.runs.move(run.run_id, RunStatus.SUCCESS, events=[new_event(1)]),
            lambda: stores.runs.move(run.run_id, RunStatus.ERROR, events=[new_event(2)]),
            lambda: stores.events.append(run.thread_id, run.run_id, [new_event(n) for n in range(3)]),
            lambda: stores.threads.merge_metadata(thread.thread_id, {"n": chance.random()}),
            lambda: stores.runs.delete(run.run_id, thread_id=run.thread_id),
            lambda: stores.threads.delete(thread.thread_id),
        ]
        weights = (8, 8, 6, 3, 6, 3, 1, 0.4)
        with suppress(NotFoundError, ConflictError):
            made = await chance.choices(changes, weights)[0]()
            if isinstance(made, RunRecord):
                started.append(made)

    async def work(database: Database) -> None:
        for _ in range(25):
            await change_something(database)

    async with open_database(lasting_config) as first, open_database(lasting_config) as second:
        started.append(await start_run(first, threads[0]))
        await asyncio.gather(*(work(database) for database in (first, second) for _ in range(8)))
        for thread in await first.stores.threads.search(ThreadQuery()):
            active = await first.stores.runs.list_active(thread_id=thread.thread_id)
            assert (thread.status is ThreadStatus.BUSY) == bool(active)
            assert [run.status for run in active].count(RunStatus.RUNNING) <= 1


async def test_move_sets_what_its_threads_metadata_lacks(database: Database) -> None:
    wanted = {"title": "cut", "note": 1}
    for present, after in (({}, wanted), ({"title": "mine", "note": None}, {"title": "mine", "note": 1})):
        run = await start_run(database, new_thread(metadata=present))
        await database.stores.runs.move(run.run_id, RunStatus.ERROR, thread_metadata=wanted)
        thread = await database.stores.threads.get(run.thread_id)
        assert thread is not None and thread.status is ThreadStatus.ERROR
        assert {key: thread.metadata[key] for key in wanted} == after
