"""Threads expire when nothing has changed them for long enough, alike on every backend."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from support.records import new_run, new_thread, start_run

from deerflow.config import AppConfig
from deerflow.errors import ConflictError, NotFoundError
from deerflow.persistence import Database, open_database
from deerflow.runs.record import RunStatus, ThreadRecord, ThreadStatus, utc_now
from deerflow.runs.thread_ttl import MAX_TTL_MINUTES, SWEEP_PAUSE, ThreadExpiry, ThreadTtl

HOUR = ThreadTtl(60)
SECOND = timedelta(seconds=1)


async def lasting_an_hour(database: Database, **fields: Any) -> ThreadRecord:
    """A thread that nothing has changed since it was made."""
    return await database.stores.threads.create(new_thread(**fields), ttl=HOUR)


def end_of(thread: ThreadRecord) -> datetime:
    return thread.updated_at + HOUR.span


@pytest.mark.parametrize("minutes", [60, 0.5, 5e-324, MAX_TTL_MINUTES])
async def test_a_thread_lasts_from_its_beginning(database: Database, minutes: float) -> None:
    ttl = ThreadTtl(minutes, "keep_latest")
    thread = await database.stores.threads.create(new_thread(), ttl=ttl)
    assert await database.stores.ttls.get(thread.thread_id) == ThreadExpiry(ttl, thread.updated_at + ttl.span)


async def test_a_thread_lasts_for_ever_unless_it_was_said_otherwise(database: Database) -> None:
    thread = await database.stores.threads.create(new_thread())
    assert await database.stores.ttls.get(thread.thread_id) is None
    assert await database.stores.ttls.get("unknown") is None
    assert await database.stores.ttls.due(utc_now() + timedelta(days=1_000_000), 10) == []


async def test_a_thread_that_is_there_lasts_as_long_as_before(database: Database) -> None:
    threads, ttls = database.stores.threads, database.stores.ttls
    thread = await threads.get_or_create(new_thread(), ttl=HOUR)
    expiry = await ttls.get(thread.thread_id)
    assert expiry == ThreadExpiry(HOUR, end_of(thread))
    assert await threads.get_or_create(thread, ttl=ThreadTtl(5)) == thread
    with pytest.raises(ConflictError):
        await threads.create(thread, ttl=ThreadTtl(5))
    with pytest.raises(NotFoundError):
        await threads.get_or_create(new_thread("bob", thread_id=thread.thread_id), ttl=ThreadTtl(5))
    assert await ttls.get(thread.thread_id) == expiry


@pytest.mark.parametrize("before", [None, ThreadTtl(1), ThreadTtl(10_000, "keep_latest")])
async def test_another_time_to_live_counts_from_when_it_was_said(
    database: Database, before: ThreadTtl | None
) -> None:
    thread = await database.stores.threads.create(new_thread(), ttl=before)
    changed = await database.stores.threads.merge_metadata(thread.thread_id, {"a": 1}, ttl=HOUR)
    assert changed.metadata == {"a": 1}
    assert await database.stores.ttls.get(thread.thread_id) == ThreadExpiry(HOUR, end_of(changed))


async def test_every_change_of_a_thread_lets_it_last_longer(database: Database) -> None:
    stores, start = database.stores, utc_now() - timedelta(days=1)

    async def patch(thread: ThreadRecord) -> None:
        await stores.threads.merge_metadata(thread.thread_id, {})

    async def update_state(thread: ThreadRecord) -> None:
        await stores.threads.touch_state(thread.thread_id, ThreadStatus.IDLE)

    async def run(thread: ThreadRecord) -> None:
        run = await start_run(database, thread)
        await stores.runs.move(run.run_id, RunStatus.ERROR)

    for change in (patch, update_state, run):
        thread = await lasting_an_hour(database, created_at=start, updated_at=start)
        assert await stores.ttls.due(utc_now(), 10) == [thread.thread_id]
        await change(thread)
        assert await stores.ttls.expire(thread.thread_id, utc_now()) is None
        assert await stores.ttls.due(utc_now(), 10) == [], "it was looked at, and is due when it expires"
        expiry = await stores.ttls.get(thread.thread_id)
        assert expiry is not None and expiry.expires_at > utc_now() + HOUR.span - timedelta(minutes=1)


async def test_those_are_due_first_that_have_waited_longest(database: Database) -> None:
    now = utc_now()
    made = [
        await lasting_an_hour(database, updated_at=now - timedelta(minutes=minutes))
        for minutes in (61, 300, 59, 60, 120)
    ]
    ids = [thread.thread_id for thread in made]
    assert await database.stores.ttls.due(now, 10) == [ids[1], ids[4], ids[0], ids[3]]
    assert await database.stores.ttls.due(now, 2) == [ids[1], ids[4]]
    await database.stores.ttls.postpone(ids[1], now + SECOND)
    assert await database.stores.ttls.due(now, 2) == [ids[4], ids[0]]


async def test_an_expired_thread_goes_with_its_runs_and_not_before(database: Database) -> None:
    stores, thread = database.stores, await lasting_an_hour(database)
    run = await start_run(database, thread)
    await stores.runs.move(run.run_id, RunStatus.RUNNING)
    await stores.runs.move(run.run_id, RunStatus.INTERRUPTED)
    used = await stores.threads.get(thread.thread_id)
    assert used is not None and used.status is ThreadStatus.INTERRUPTED, "a thread that waits expires as well"
    assert await stores.ttls.expire(thread.thread_id, end_of(used) - SECOND) is None
    assert await stores.threads.get(thread.thread_id) == used
    assert await stores.ttls.expire(thread.thread_id, end_of(used)) == "delete"
    assert await stores.threads.get(thread.thread_id) is await stores.runs.get(run.run_id) is None
    assert await stores.ttls.expire(thread.thread_id, end_of(used)) is None


async def test_what_a_deleted_thread_left_is_due_until_somebody_has_removed_it(database: Database) -> None:
    ttls, thread = database.stores.ttls, await lasting_an_hour(database)
    now = end_of(thread)
    assert await ttls.expire(thread.thread_id, now) == "delete"
    assert await ttls.due(now, 10) == [], "who was told has time for it"
    now += SWEEP_PAUSE
    assert await ttls.due(now, 10) == [thread.thread_id]
    assert [await ttls.expire(thread.thread_id, now) for _ in range(2)] == ["delete", None]
    now += SWEEP_PAUSE
    await ttls.settle(thread.thread_id, "delete", now)
    assert (await ttls.due(now, 10), await ttls.expire(thread.thread_id, now)) == ([], None)


async def test_a_thread_that_is_there_again_has_no_part_in_the_end_of_the_old_one(database: Database) -> None:
    ttls, thread = database.stores.ttls, await lasting_an_hour(database)
    now = end_of(thread)
    assert await ttls.expire(thread.thread_id, now) == "delete"
    again = await database.stores.threads.create(thread)
    assert await ttls.get(again.thread_id) is None
    assert await ttls.expire(again.thread_id, now + SWEEP_PAUSE) is None
    assert await ttls.due(now + SWEEP_PAUSE, 10) == []
    assert await database.stores.threads.get(again.thread_id) == again


@pytest.mark.parametrize("status", [RunStatus.PENDING, RunStatus.RUNNING])
async def test_a_thread_with_an_active_run_does_not_expire(database: Database, status: RunStatus) -> None:
    stores, thread = database.stores, await lasting_an_hour(database)
    run = await start_run(database, thread)
    if status is RunStatus.RUNNING:
        await stores.runs.move(run.run_id, status)
    late = end_of(thread) + timedelta(days=1)
    assert await stores.ttls.expire(thread.thread_id, late) is None
    assert await stores.ttls.due(late, 10) == [], "others have their turn meanwhile"
    later = late + SWEEP_PAUSE
    assert await stores.ttls.due(later, 10) == [thread.thread_id]
    await stores.runs.move(run.run_id, RunStatus.ERROR)
    assert await stores.ttls.expire(thread.thread_id, later) == "delete"


async def test_a_thread_whose_history_alone_expires_stays(database: Database) -> None:
    stores, ttl = database.stores, ThreadTtl(60, "keep_latest")
    thread = await stores.threads.create(new_thread(), ttl=ttl)
    now = end_of(thread) + SECOND
    assert await stores.ttls.expire(thread.thread_id, now) == "keep_latest"
    assert await stores.threads.get(thread.thread_id) == thread
    assert await stores.ttls.expire(thread.thread_id, now) is None
    assert await stores.ttls.due(now + SWEEP_PAUSE, 10) == [thread.thread_id], "until it was done"
    await stores.ttls.settle(thread.thread_id, "keep_latest", now)
    assert await stores.ttls.get(thread.thread_id) == ThreadExpiry(ttl, now + ttl.span)
    assert await stores.ttls.due(now + SWEEP_PAUSE, 10) == []


@pytest.mark.parametrize("strategy", ["delete", "keep_latest"])
async def test_of_two_hosts_one_is_told(lasting_config: AppConfig, strategy: Any) -> None:
    async with open_database(lasting_config) as first, open_database(lasting_config) as second:
        for _ in range(3):
            thread = await first.stores.threads.create(new_thread(), ttl=ThreadTtl(60, strategy))
            told = await asyncio.gather(
                *(each.stores.ttls.expire(thread.thread_id, end_of(thread)) for each in (first, second) * 3)
            )
            assert sorted(map(str, told)) == sorted([strategy, *["None"] * 5])


async def test_a_run_that_comes_in_that_moment_keeps_its_thread_or_finds_none(
    lasting_config: AppConfig,
) -> None:
    async with open_database(lasting_config) as first, open_database(lasting_config) as second:
        for turn in range(6):
            thread = await lasting_an_hour(first)
            run, late = new_run(thread), end_of(thread) + timedelta(days=1)
            both = [second.stores.runs.create(run), first.stores.ttls.expire(thread.thread_id, late)]
            results = await asyncio.gather(*both[:: -1 if turn % 2 else 1], return_exceptions=True)
            kept = await first.stores.threads.get(thread.thread_id)
            if "delete" in results:
                assert kept is None and any(isinstance(result, NotFoundError) for result in results)
            else:
                assert kept is not None and await first.stores.runs.get(run.run_id) is not None
