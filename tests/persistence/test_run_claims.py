"""Of the runs of a thread one is under way, whichever hosts they come from, and stops reach each."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from support.records import new_run, new_thread, start_run

from deerflow.config import AppConfig
from deerflow.errors import NotFoundError
from deerflow.persistence import Database, open_database
from deerflow.runs.record import (
    RunStatus,
    StopRequestedError,
    ThreadBusyError,
    ThreadRecord,
    ThreadStatus,
)
from deerflow.runs.stores import Admission


async def admit(database: Database, thread: ThreadRecord, strategy: str) -> Admission:
    run = new_run(thread, multitask_strategy=strategy)
    return await database.stores.runs.create(run, thread=thread)


async def requests_on(database: Database, thread: ThreadRecord) -> list[str | None]:
    active = await database.stores.runs.list_active(thread_id=thread.thread_id)
    return [run.stop_requested for run in active]


async def test_a_run_that_begins_counts_its_attempt(database: Database) -> None:
    run = await start_run(database, host_id="a")
    assert (run.attempt, run.host_id) == (0, "a")
    begun = await database.stores.runs.move(run.run_id, RunStatus.RUNNING, host_id="a")
    ended = await database.stores.runs.move(run.run_id, RunStatus.SUCCESS, host_id="a")
    assert (begun.attempt, ended.attempt, ended.host_id) == (1, 1, "a")


async def test_a_run_that_may_begins_at_once_where_no_other_one_of_its_thread_is_active(
    database: Database,
) -> None:
    runs, thread = database.stores.runs, new_thread()
    admissions = [await runs.create(new_run(thread), thread=thread, may_begin=True) for _ in range(2)]
    assert [(it.run.status, it.run.attempt) for it in admissions] == [("running", 1), ("pending", 0)]
    for admission in admissions:
        assert await runs.get(admission.run.run_id) == admission.run
    await runs.move(admissions[0].run.run_id, RunStatus.SUCCESS)
    third = await runs.create(new_run(thread), thread=thread, may_begin=True)
    assert third.run.status == "pending"  # the second one is before it
    await runs.move(admissions[1].run.run_id, RunStatus.INTERRUPTED)
    elsewhere = await runs.create(new_run(other := new_thread()), thread=other, may_begin=True)
    assert elsewhere.run.status == "running"


async def test_of_runs_that_come_at_once_and_may_begin_one_begins(lasting_config: AppConfig) -> None:
    thread = new_thread()
    async with open_database(lasting_config) as first, open_database(lasting_config) as second:
        admissions = await asyncio.gather(
            *(
                database.stores.runs.create(new_run(thread), thread=thread, may_begin=True)
                for database in (first, second)
                for _ in range(5)
            )
        )
        assert sorted(admission.run.status for admission in admissions) == ["pending"] * 9 + ["running"]


async def test_a_run_of_any_owner_is_that_of_its_threads_owner(database: Database) -> None:
    runs, thread = database.stores.runs, new_thread("ada")
    await database.stores.threads.create(thread)
    visitor = new_thread("root", thread_id=thread.thread_id)
    for entered in (visitor, None):
        with pytest.raises(NotFoundError, match=thread.thread_id):
            await runs.create(new_run(visitor), thread=entered)
        admission = await runs.create(new_run(visitor), thread=entered, of_any_owner=True)
        assert (admission.run.user_id, admission.thread.user_id) == ("ada", "ada")
        assert await runs.get(admission.run.run_id) == admission.run
    other = new_thread("root")
    admission = await runs.create(new_run(other), thread=other, of_any_owner=True)
    assert (admission.run.user_id, admission.thread.user_id) == ("root", "root")


async def test_the_first_reason_to_stop_stays(database: Database) -> None:
    run = await start_run(database)
    assert await database.stores.runs.request_stop(run.run_id, "cancelled")
    assert await database.stores.runs.request_stop(run.run_id, "rollback")
    assert (await database.stores.runs.get(run.run_id)).stop_requested == "cancelled"  # type: ignore[union-attr]
    await database.stores.runs.move(run.run_id, RunStatus.INTERRUPTED)
    assert not await database.stores.runs.request_stop(run.run_id, "cancelled")
    assert not await database.stores.runs.request_stop("nobody", "cancelled")


async def test_a_run_that_is_to_stop_does_not_begin(database: Database) -> None:
    run = await start_run(database)
    await database.stores.runs.request_stop(run.run_id, "interrupt")
    with pytest.raises(StopRequestedError) as raised:
        await database.stores.runs.move(run.run_id, RunStatus.RUNNING)
    assert raised.value.reason == "interrupt"
    await database.stores.runs.move(run.run_id, RunStatus.INTERRUPTED)


async def test_a_busy_thread_is_told_from_an_illegal_move(database: Database) -> None:
    thread = new_thread()
    first, second = [await start_run(database, thread) for _ in range(2)]
    await database.stores.runs.move(first.run_id, RunStatus.RUNNING)
    with pytest.raises(ThreadBusyError, match=thread.thread_id):
        await database.stores.runs.move(second.run_id, RunStatus.RUNNING)
    await database.stores.runs.move(first.run_id, RunStatus.SUCCESS)
    await database.stores.runs.move(second.run_id, RunStatus.RUNNING)


async def test_of_runs_that_come_at_once_and_reject_each_other_one_is_taken(
    lasting_config: AppConfig,
) -> None:
    thread = new_thread()
    async with open_database(lasting_config) as first, open_database(lasting_config) as second:
        admissions = [admit(database, thread, "reject") for database in (first, second) for _ in range(5)]
        results = await asyncio.gather(*admissions, return_exceptions=True)
        assert sum(isinstance(result, Admission) for result in results) == 1
        assert sum(isinstance(result, ThreadBusyError) for result in results) == 9
        assert await requests_on(first, thread) == [None]


@pytest.mark.parametrize("strategy", ["interrupt", "rollback"])
async def test_of_runs_that_come_at_once_and_replace_each_other_one_is_left(
    lasting_config: AppConfig, strategy: str
) -> None:
    thread = new_thread()
    async with open_database(lasting_config) as first, open_database(lasting_config) as second:
        await admit(first, thread, "enqueue")
        results = await asyncio.gather(
            *(admit(database, thread, strategy) for database in (first, second) for _ in range(5))
        )
        requests = await requests_on(first, thread)
        assert (requests.count(None), requests.count(strategy)) == (1, 10)
        assert sorted(len(result.superseded) for result in results) == list(range(1, 11))


async def test_a_refused_run_leaves_the_thread_as_it_was(database: Database) -> None:
    run = await start_run(database)
    thread = await database.stores.threads.get(run.thread_id)
    assert thread is not None
    with suppress(ThreadBusyError):
        await admit(database, thread, "reject")
    assert await database.stores.threads.get(run.thread_id) == thread


async def test_the_thread_of_a_deleted_run_may_wait_for_a_person(database: Database) -> None:
    run = await start_run(database)
    await database.stores.runs.delete(
        run.run_id, thread_id=run.thread_id, thread_status=ThreadStatus.INTERRUPTED
    )
    thread = await database.stores.threads.get(run.thread_id)
    assert thread is not None and thread.status is ThreadStatus.INTERRUPTED
