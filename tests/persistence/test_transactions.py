"""A transaction is whole or not at all, whatever becomes of its caller."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import anyio
import psycopg
import pytest
from blockbuster import blockbuster_ctx
from sqlalchemy import text
from sqlalchemy.engine import Connection
from support.databases import sqlite_config
from support.records import new_event, new_thread, start_run

from deerflow.config import AppConfig, config_from
from deerflow.persistence import (
    Database,
    DatabaseUnavailableError,
    job_threads,
    open_checkpointer,
    open_database,
    open_store,
)
from deerflow.runs.record import RunStatus
from deerflow.runs.stores import ThreadQuery


class Gate:
    """A write that stands in the database until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    def __call__(self, connection: Connection) -> str:
        connection.execute(text("UPDATE run_changes SET last_change = last_change + 1000"))
        self.entered.set()
        assert self.opened.wait(10)
        return "done"


async def last_change(database: Database) -> int:
    statement = text("SELECT last_change FROM run_changes")
    return await database.transactions.read(lambda connection: connection.execute(statement).scalar_one())


async def test_what_raises_leaves_nothing_behind(database: Database) -> None:
    def fail(connection: Connection) -> None:
        connection.execute(text("UPDATE run_changes SET last_change = 7"))
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        await database.transactions.write(fail)
    assert await last_change(database) == 0


async def test_a_write_that_began_is_finished_though_its_caller_left(database: Database) -> None:
    gate = Gate()
    write = asyncio.create_task(database.transactions.write(gate))
    await asyncio.to_thread(gate.entered.wait, 10)
    write.cancel()
    with pytest.raises(asyncio.CancelledError):
        await write
    gate.opened.set()
    await start_run(database)  # waits its turn
    assert await last_change(database) == 1001


async def test_a_write_that_had_not_begun_never_reaches_the_database(database: Database) -> None:
    gate = Gate()
    # As many as there are threads for any backend.
    standing = [asyncio.create_task(database.transactions.write(gate)) for _ in range(8)]
    await asyncio.to_thread(gate.entered.wait, 10)
    thread = new_thread()
    waiting = [asyncio.create_task(database.stores.threads.create(new_thread())) for _ in range(20)]
    kept = asyncio.create_task(database.stores.threads.create(thread))
    await asyncio.sleep(0)
    for write in waiting:
        write.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    gate.opened.set()
    await asyncio.gather(*standing, kept)
    found = await database.stores.threads.search(ThreadQuery())
    assert [one.thread_id for one in found] == [thread.thread_id]


async def test_writes_cancelled_at_any_moment_are_whole_or_absent(database: Database) -> None:
    chance = random.Random(7)
    threads = [new_thread() for _ in range(40)]

    async def create_and_end(index: int) -> None:
        run = await start_run(database, threads[index])
        await database.stores.runs.move(run.run_id, RunStatus.ERROR, events=[new_event(1), new_event(2)])

    tasks = [asyncio.create_task(create_and_end(index)) for index in range(len(threads))]
    for task in tasks:
        await asyncio.sleep(chance.random() / 500)
        if chance.random() < 0.7:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for thread in threads:
        kept = await database.stores.threads.get(thread.thread_id)
        runs = await database.stores.runs.list_by_thread(thread.thread_id)
        assert (kept is None) == (runs == [])
        if kept is not None:
            events = await database.stores.events.list(thread.thread_id, runs[0].run_id)
            ended = runs[0].status is RunStatus.ERROR
            assert kept.status == ("error" if ended else "busy")
            assert len(events) == (2 if ended else 0)
    await start_run(database)


async def test_a_file_that_another_program_writes_to_is_away_until_that_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deerflow.persistence.engines.SQLITE_PRAGMAS", ("PRAGMA busy_timeout = 1",))
    file = tmp_path / "deerflow.db"
    async with open_database(sqlite_config(file)) as database:
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(DatabaseUnavailableError, match="does not answer: database is locked"):
                await start_run(database)
            other.execute("ROLLBACK")
        await start_run(database)


async def test_a_closed_database_says_so(database_config: AppConfig) -> None:
    async with open_database(database_config) as database:
        run = await start_run(database)
    with pytest.raises(DatabaseUnavailableError, match="closed"):
        await database.stores.runs.get(run.run_id)
    with pytest.raises(DatabaseUnavailableError, match="closed"):
        await start_run(database)


async def test_closing_waits_for_what_runs_and_refuses_what_waits(database_config: AppConfig) -> None:
    async with open_database(database_config) as database:
        gate = Gate()
        standing = [asyncio.create_task(database.transactions.write(gate)) for _ in range(8)]
        await asyncio.to_thread(gate.entered.wait, 10)
        closing = asyncio.create_task(database.transactions.close())
        await asyncio.sleep(0.05)
        assert not closing.done()
        gate.opened.set()
        await closing
        results = await asyncio.gather(*standing, return_exceptions=True)
    assert "done" in results
    assert {type(result) for result in results[1:]} <= {str, DatabaseUnavailableError}


async def test_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert job_threads.MAX_WAITING > 1000
    monkeypatch.setattr(job_threads, "MAX_WAITING", 2)
    async with open_database(config_from({"database": {"backend": "memory"}})) as database:
        gate = Gate()
        standing = asyncio.create_task(database.transactions.write(gate))
        await asyncio.to_thread(gate.entered.wait, 10)
        waiting = [asyncio.create_task(start_run(database)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(DatabaseUnavailableError, match="2 jobs wait"):
            await start_run(database)
        gate.opened.set()
        await asyncio.gather(standing, *waiting)
        await start_run(database)


async def test_stores_may_be_used_from_any_loop(database: Database) -> None:
    run = await asyncio.to_thread(lambda: asyncio.run(start_run(database)))
    assert await database.stores.runs.get(run.run_id) == run


async def test_nothing_blocks_the_event_loop(database_config: AppConfig) -> None:
    with blockbuster_ctx():
        async with (
            open_database(database_config) as database,
            open_checkpointer(database_config) as saver,
            open_store(database_config) as store,
        ):
            run = await start_run(database)
            await database.stores.runs.move(run.run_id, RunStatus.RUNNING)
            await database.evidence.list_changed_runs(cursor=None, limit=1)
            await saver.aget_tuple({"configurable": {"thread_id": "t", "checkpoint_ns": ""}})
            await store.aput(("a",), "k", {"v": 1})
            if database.session_factory is not None:
                async with database.session_factory() as session:
                    await session.execute(text("SELECT 1"))


async def test_closing_is_not_cut_short_by_cancellation(lasting_config: AppConfig) -> None:
    before, opened = set(threading.enumerate()), asyncio.Event()

    async def hold() -> None:
        async with open_database(lasting_config) as database:
            await start_run(database)
            opened.set()
            try:
                await asyncio.sleep(60)
            finally:
                holder.cancel()  # once more, into the closing

    holder = asyncio.create_task(hold())
    await opened.wait()
    holder.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holder
    left = set(threading.enumerate()) - before
    assert [thread for thread in left if thread.name.startswith("database")] == []


@pytest.mark.postgres
async def test_connections_that_the_server_dropped_are_replaced(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deerflow.persistence.engines.IDLE_SECONDS_BEFORE_PING", -1.0)
    config = config_from({"database": {"backend": "postgres", "url": postgres_url}})
    async with open_database(config) as database:
        run = await start_run(database)
        with psycopg.connect(postgres_url, autocommit=True) as server:
            server.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert await database.stores.runs.get(run.run_id) == run
        await database.stores.runs.move(run.run_id, RunStatus.RUNNING)


def in_its_own_time(connection: Connection) -> int:
    """A transaction that a busy machine does not cut off."""
    connection.execute(text("SET LOCAL statement_timeout = 0"))
    change = text("UPDATE run_changes SET last_change = 7 RETURNING last_change")
    return connection.execute(change).scalar_one()


@pytest.mark.postgres
async def test_a_statement_that_takes_too_long_is_cut_off(postgres_url: str) -> None:
    section = {"backend": "postgres", "url": postgres_url, "statement_timeout_seconds": 0.2}
    async with open_database(config_from({"database": section})) as database:
        with anyio.fail_after(30), pytest.raises(DatabaseUnavailableError, match="timeout"):
            await database.transactions.write(
                lambda connection: connection.execute(text("SELECT pg_sleep(60)")).all()
            )
        assert await database.transactions.write(in_its_own_time) == 7
