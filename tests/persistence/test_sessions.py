"""Extensions share the host's database through sessions of their own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text
from support.databases import sqlite_config
from support.records import new_thread, start_run

from deerflow.config import AppConfig, config_from
from deerflow.persistence import Database, open_checkpointer, open_database
from deerflow.runs.stores import ThreadQuery


async def execute(database: Database, *statements: str) -> None:
    assert database.session_factory is not None
    async with database.session_factory() as session, session.begin():
        for statement in statements:
            await session.execute(text(statement))


async def test_nobody_else_is_let_into_a_database_in_memory() -> None:
    async with open_database(config_from({"database": {"backend": "memory"}})) as database:
        assert database.session_factory is None
        assert database.engine is None


async def test_two_databases_in_memory_are_two() -> None:
    config = config_from({"database": {"backend": "memory"}})
    async with open_database(config) as first, open_database(config) as second:
        await start_run(first)
        assert await second.stores.threads.count(ThreadQuery()) == 0


async def test_an_extension_keeps_and_rolls_back_its_own_rows(lasting_config: AppConfig) -> None:
    async with open_database(lasting_config) as database:
        await execute(
            database, "CREATE TABLE acme_notes (word TEXT)", "INSERT INTO acme_notes VALUES ('kept')"
        )
        with pytest.raises(LookupError):
            async with database.session_factory() as session, session.begin():  # type: ignore[misc]
                await session.execute(text("INSERT INTO acme_notes VALUES ('lost')"))
                raise LookupError
        async with database.session_factory() as session:  # type: ignore[misc]
            assert (await session.execute(text("SELECT word FROM acme_notes"))).scalars().all() == ["kept"]


async def test_an_extensions_tables_are_made_all_or_none(lasting_config: AppConfig) -> None:
    async with open_database(lasting_config) as database:
        with pytest.raises(Exception, match=r"(?i)syntax"):
            await execute(database, "CREATE TABLE acme_one (id INTEGER)", "CREATE NONSENSE")
        await execute(database, "CREATE TABLE acme_one (id INTEGER)")


async def test_savepoints_work(lasting_config: AppConfig) -> None:
    async with open_database(lasting_config) as database:
        await execute(database, "CREATE TABLE acme_notes (word TEXT)")
        async with database.session_factory() as session, session.begin():  # type: ignore[misc]
            async with session.begin_nested() as savepoint:
                await session.execute(text("INSERT INTO acme_notes VALUES ('lost')"))
                await savepoint.rollback()
            await session.execute(text("INSERT INTO acme_notes VALUES ('kept')"))
        async with database.session_factory() as session:  # type: ignore[misc]
            assert (await session.execute(text("SELECT word FROM acme_notes"))).scalars().all() == ["kept"]


async def test_an_idle_reader_does_not_stop_the_host(lasting_config: AppConfig) -> None:
    """A session that has only read may stay open for long, and write later what others have outdated."""
    async with open_database(lasting_config) as database:
        await execute(database, "CREATE TABLE acme_notes (word TEXT)")
        async with database.session_factory() as session:  # type: ignore[misc]
            await session.execute(text("SELECT count(*) FROM acme_notes"))
            run = await asyncio.wait_for(start_run(database), 20)
            seen = await session.execute(text("SELECT count(*) FROM runs"))
            assert seen.scalar_one() == 1
            await session.execute(text("INSERT INTO acme_notes VALUES ('late')"))
            await session.commit()
        assert await database.stores.runs.get(run.run_id) is not None


async def test_a_cancelled_session_lets_go_of_the_database(lasting_config: AppConfig) -> None:
    async with open_database(lasting_config) as database:
        await execute(database, "CREATE TABLE acme_notes (word TEXT)")

        async def write_and_wait() -> None:
            async with database.session_factory() as session, session.begin():  # type: ignore[misc]
                await session.execute(text("INSERT INTO acme_notes VALUES ('lost')"))
                writing.set()
                await asyncio.sleep(60)

        writing = asyncio.Event()
        writer = asyncio.create_task(write_and_wait())
        await writing.wait()
        writer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writer
        await asyncio.wait_for(start_run(database), 20)
        await execute(database, "INSERT INTO acme_notes VALUES ('kept')")


WRITE_FOR_A_WHILE = """
import asyncio, sys, time
from langgraph.graph import MessagesState, StateGraph
from sqlalchemy import text
from deerflow.config import config_from
from deerflow.persistence import open_checkpointer, open_database
from deerflow.runs.record import NewRunEvent, RunRecord, RunStatus, ThreadRecord

SECONDS = 1.2

async def host(database, name):
    n = 0
    while time.monotonic() < until or n < 3:
        n += 1
        thread = ThreadRecord(f"{name}-{n % 3}")
        run = RunRecord(f"{name}-{n}", thread.thread_id, "lead")
        await database.stores.runs.create(run, thread=thread)
        await database.stores.runs.move(run.run_id, RunStatus.RUNNING)
        await database.stores.events.append(thread.thread_id, run.run_id, [NewRunEvent("e", "custom", n)] * 3)
        await database.stores.runs.move(run.run_id, RunStatus.SUCCESS)

async def extension(database, name):
    while time.monotonic() < until:
        async with database.session_factory() as session, session.begin():
            count = (await session.execute(text("SELECT count(*) FROM acme_notes"))).scalar_one()
            await session.execute(text("INSERT INTO acme_notes VALUES (:w)"), {"w": f"{name}-{count}"})

async def graph(saver, name):
    builder = StateGraph(MessagesState)
    builder.add_node("answer", lambda state: {"messages": [("ai", "yes")]})
    builder.set_entry_point("answer")
    compiled = builder.compile(checkpointer=saver)
    while time.monotonic() < until:
        await compiled.ainvoke({"messages": [("user", "?")]}, {"configurable": {"thread_id": name}})

async def main(url, name):
    config = config_from({"database": {"backend": "sqlite", "url": url}})
    async with open_database(config) as database, open_checkpointer(config) as saver:
        global until
        until = time.monotonic() + SECONDS
        await asyncio.gather(
            *(host(database, f"{name}-{n}") for n in range(8)),
            *(extension(database, f"{name}-{n}") for n in range(6)),
            *(graph(saver, f"{name}-{n}") for n in range(6)),
        )

asyncio.run(main(*sys.argv[1:]))
"""


async def test_twenty_writers_in_two_processes_never_find_the_file_locked(tmp_path: Path) -> None:
    config = sqlite_config(tmp_path / "deerflow.db")
    url = str(config.database.url)
    async with open_database(config) as database, open_checkpointer(config):
        await execute(database, "CREATE TABLE acme_notes (word TEXT)")
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", WRITE_FOR_A_WHILE, url, name], stderr=subprocess.PIPE, text=True
            )
            for name in ("left", "right")
        ]
        ended = [await asyncio.to_thread(process.communicate, timeout=60) for process in processes]
        assert [errors for _, errors in ended] == ["", ""]
        assert [process.returncode for process in processes] == [0, 0]
        await check_order(database)


async def check_order(database: Database) -> None:
    """Every run ended, and the events of each thread are numbered without a gap."""
    assert await database.stores.runs.list_active() == []
    threads = await database.stores.threads.search(ThreadQuery(limit=1000))
    assert len(threads) == 2 * 8 * 3
    for thread in threads:
        runs = await database.stores.runs.list_by_thread(thread.thread_id, limit=10_000)
        numbers = [
            stored.seq
            for run in runs[::-1]
            for stored in await database.stores.events.list(thread.thread_id, run.run_id)
        ]
        assert numbers == list(range(1, len(numbers) + 1))
        assert numbers


async def test_references_hold_for_extensions_too(lasting_config: AppConfig) -> None:
    async with open_database(lasting_config) as database:
        thread = await database.stores.threads.create(new_thread())
        await execute(
            database,
            "CREATE TABLE acme_notes (thread_id TEXT REFERENCES threads (thread_id) ON DELETE CASCADE)",
            f"INSERT INTO acme_notes VALUES ('{thread.thread_id}')",
        )
        with pytest.raises(Exception, match=r"(?i)foreign key"):
            await execute(database, "INSERT INTO acme_notes VALUES ('nobody')")
        await database.stores.threads.delete(thread.thread_id)
        async with database.session_factory() as session:  # type: ignore[misc]
            assert (await session.execute(text("SELECT count(*) FROM acme_notes"))).scalar_one() == 0
