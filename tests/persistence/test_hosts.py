"""Hosts that share a database know which of them live, and take up the runs of those that do not."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.databases import sqlite_config
from support.records import new_event, new_thread, start_run

from deerflow.config import AppConfig
from deerflow.errors import NotFoundError
from deerflow.persistence import Database, open_database
from deerflow.runs.record import RunLostError, RunRecord, RunStatus
from deerflow.runs.stores import HostStore

LEASE_SECONDS = 60.0
OVER = -1.0
"""A lease that is over the moment it is taken."""


@pytest.fixture
async def shared(lasting_config: AppConfig) -> AsyncIterator[Database]:
    """A database that several hosts can be on."""
    async with open_database(lasting_config) as database:
        yield database


def hosts_of(database: Database) -> HostStore:
    assert database.stores.hosts is not None
    return database.stores.hosts


async def die(database: Database, host_id: str) -> None:
    """End a host without its leave."""
    hosts = hosts_of(database)
    if hosts.leases_expire:
        await hosts.beat(host_id, OVER)
    else:
        hosts._held.pop(host_id).release()  # type: ignore[attr-defined]


async def stored(database: Database, run: RunRecord) -> RunRecord:
    found = await database.stores.runs.get(run.run_id)
    assert found is not None
    return found


async def test_a_database_in_memory_has_no_other_hosts(tmp_path: Path) -> None:
    async with open_database(AppConfig.model_validate({"database": {"backend": "memory"}})) as database:
        assert database.stores.hosts is None


async def test_the_runs_of_a_live_host_are_its_own(shared: Database) -> None:
    hosts = hosts_of(shared)
    await hosts.enter("a", LEASE_SECONDS)
    await hosts.enter("b", LEASE_SECONDS)
    run = await start_run(shared, host_id="a")
    ended = await start_run(shared, host_id="a")
    await shared.stores.runs.move(ended.run_id, RunStatus.ERROR)
    assert await hosts.inherit("b") == []
    assert await hosts.owned("a") == await hosts.beat("a", LEASE_SECONDS) == {run.run_id: None}
    assert await hosts.owned("b") == {}


async def test_the_runs_of_a_dead_host_go_to_one_heir(shared: Database) -> None:
    hosts = hosts_of(shared)
    for host_id in ("dead", "b", "c"):
        await hosts.enter(host_id, LEASE_SECONDS)
    thread = new_thread()
    running = await start_run(shared, thread, host_id="dead")
    waiting = await start_run(shared, thread, host_id="dead")
    await shared.stores.runs.move(running.run_id, RunStatus.RUNNING, host_id="dead")
    await die(shared, "dead")
    taken = await asyncio.gather(hosts.inherit("b"), hosts.inherit("c"))
    assert sorted(map(len, taken)) == [0, 2]
    heir = "b" if taken[0] else "c"
    first, second = taken[0] or taken[1]
    assert (first.run_id, first.status, first.attempt, first.host_id) == (running.run_id, "running", 2, heir)
    assert (second.run_id, second.status, second.attempt) == (waiting.run_id, "pending", 0)
    assert await hosts.inherit("b") == await hosts.inherit("c") == []


async def test_runs_without_a_host_are_taken_up(shared: Database) -> None:
    hosts = hosts_of(shared)
    await hosts.enter("a", LEASE_SECONDS)
    run = await start_run(shared)
    assert [found.run_id for found in await hosts.inherit("a")] == [run.run_id]
    other = await start_run(shared, host_id="never seen")
    assert [found.run_id for found in await hosts.inherit("a")] == [other.run_id]


async def test_a_host_that_left_is_gone(shared: Database) -> None:
    hosts = hosts_of(shared)
    await hosts.enter("a", LEASE_SECONDS)
    await hosts.enter("b", LEASE_SECONDS)
    run = await start_run(shared, host_id="a")
    await hosts.leave("a")
    assert [found.run_id for found in await hosts.inherit("b")] == [run.run_id]


async def test_what_was_taken_is_lost_to_its_former_host(shared: Database) -> None:
    hosts = hosts_of(shared)
    await hosts.enter("late", LEASE_SECONDS)
    await hosts.enter("heir", LEASE_SECONDS)
    run = await start_run(shared, host_id="late")
    await shared.stores.runs.move(run.run_id, RunStatus.RUNNING, host_id="late")
    await die(shared, "late")
    await hosts.inherit("heir")
    assert await hosts.beat("late", LEASE_SECONDS) == {}
    for end in (RunStatus.SUCCESS, RunStatus.ERROR):
        with pytest.raises(RunLostError, match=run.run_id):
            await shared.stores.runs.move(run.run_id, end, host_id="late", events=[new_event()])
    with pytest.raises(NotFoundError, match="late"):
        await shared.stores.events.append(run.thread_id, run.run_id, [new_event()], host_id="late")
    assert not await shared.stores.runs.delete(run.run_id, thread_id=run.thread_id, host_id="late")
    assert (await stored(shared, run)).status is RunStatus.RUNNING
    assert await shared.stores.events.list(run.thread_id, run.run_id) == []
    await shared.stores.events.append(run.thread_id, run.run_id, [new_event()], host_id="heir")
    await shared.stores.runs.move(run.run_id, RunStatus.SUCCESS, host_id="heir")


@pytest.mark.postgres
async def test_a_lease_that_is_renewed_in_time_keeps_the_runs(postgres_url: str) -> None:
    config = AppConfig.model_validate({"database": {"backend": "postgres", "url": postgres_url}})
    async with open_database(config) as first, open_database(config) as second:
        await hosts_of(first).enter("a", OVER)
        await hosts_of(second).enter("b", LEASE_SECONDS)
        run = await start_run(first, host_id="a")
        renewing = [hosts_of(first).beat("a", LEASE_SECONDS) for _ in range(20)]
        _, *owned = await asyncio.gather(hosts_of(second).inherit("b"), *renewing)
        taken = (await stored(first, run)).host_id == "b"
        # Either it was late, and knows it from its first beat on; or it was in time, and keeps what it has.
        assert set(map(len, owned)) == ({0} if taken else {1})


HOLD = """
import asyncio, sys
from deerflow.config import config_from
from deerflow.persistence import open_database

async def main(url):
    async with open_database(config_from({"database": {"url": url}})) as database:
        await database.stores.hosts.enter("child", 60.0)
        print("alive", flush=True)
        await asyncio.sleep(60)

asyncio.run(main(sys.argv[1]))
"""


async def test_a_killed_process_on_a_file_is_known_to_be_dead_at_once(tmp_path: Path) -> None:
    config = sqlite_config(tmp_path / "deerflow.db")
    async with open_database(config) as database:
        await hosts_of(database).enter("parent", LEASE_SECONDS)
        run = await start_run(database, host_id="child")
        arguments = [sys.executable, "-c", HOLD, str(config.database.url)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert await asyncio.to_thread(child.stdout.readline) == "alive\n"
            assert await hosts_of(database).inherit("parent") == []
            child.kill()
            child.wait()
        assert [found.run_id for found in await hosts_of(database).inherit("parent")] == [run.run_id]
        await hosts_of(database).leave("parent")
    assert list(tmp_path.glob("*.alive")) == []
