"""Threads that have expired are swept away with all that belongs to them; what fails is tried again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.crashes import lasting, lasting_values, until
from support.databases import lasting_config, postgres_database, postgres_url
from support.gateways import ASKING, SLOW
from support.hosts import answer, finished, scripted_host, start
from support.records import new_thread

from deerflow.config import AppConfig
from deerflow.host import Host, HostOptions, open_host
from deerflow.persistence import DatabaseUnavailableError
from deerflow.runs import sweep as sweep_module
from deerflow.runs.record import ThreadRecord, utc_now
from deerflow.runs.thread_ttl import SWEEP_PAUSE, ThreadTtl, TtlStrategy

__all__ = ["lasting_config", "postgres_database", "postgres_url"]

PAUSE_MINUTES = SWEEP_PAUSE / timedelta(minutes=1)
LOG = "deerflow.runs.sweep"


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with scripted_host(tmp_path, [ASKING, SLOW]) as opened:
        yield opened


def on(database: AppConfig, home: Path, rules: Sequence[dict[str, Any]] = ()) -> AppConfig:
    """The configuration of hosts on this database, none of which counts as dead because it is slow."""
    return lasting(lasting_values(database, rules, runs={"lease_seconds": 60.0}), home)


async def thread_on(host: Host, *said: str, strategy: TtlStrategy = "delete") -> str:
    """A thread that lasts for an hour, with a run for each text."""
    thread = new_thread(None)
    await host.database.stores.threads.create(thread, ttl=ThreadTtl(60, strategy))
    for text in said:
        await finished(host, text, thread_id=thread.thread_id)
    return thread.thread_id


async def sweep(host: Host, *, after_minutes: float = 61) -> None:
    await host.sweep.sweep(utc_now() + timedelta(minutes=after_minutes))


async def found(host: Host, thread_id: str) -> ThreadRecord | None:
    return await host.database.stores.threads.get(thread_id)


async def checkpoints(host: Host, thread_id: str) -> int:
    place: Any = {"configurable": {"thread_id": thread_id}}
    return len([item async for item in host.checkpointer.alist(place)])


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_an_expired_thread_goes_with_its_runs_states_and_files(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOG)
    expired, other = await thread_on(host, "ask"), await thread_on(host)
    kept = (await finished(host, "hello")).thread_id
    run = (await host.database.stores.runs.list_by_thread(expired))[0]
    workspace = host.config.workspace_path(expired)
    assert (workspace / "a.txt").exists()
    await sweep(host, after_minutes=59)
    assert await found(host, expired) is not None
    await host.database.stores.threads.merge_metadata(other, {}, ttl=ThreadTtl(600))
    await sweep(host)
    assert await found(host, expired) is await host.database.stores.runs.get(run.run_id) is None
    assert await checkpoints(host, expired) == 0
    assert not workspace.parent.exists()
    assert host.runs.find_ended(run.run_id) is None
    assert await found(host, kept) is not None and await found(host, other) is not None
    assert await checkpoints(host, kept) > 0
    assert [record.getMessage() for record in caplog.records if record.name == LOG] == [
        "1 threads had expired, and were deleted or lost their older states"
    ]


async def test_a_thread_whose_history_alone_expires_goes_on(host: Host) -> None:
    thread_id = await thread_on(host, "one", "two", strategy="keep_latest")
    before = await checkpoints(host, thread_id)
    await sweep(host)
    assert (before > 1, await checkpoints(host, thread_id)) == (True, 1)
    assert len(await host.database.stores.runs.list_by_thread(thread_id)) == 2
    run = await finished(host, "three", thread_id=thread_id)
    assert [str(message.text) for message in run.values["messages"]][::2] == ["one", "two", "three"]
    await sweep(host, after_minutes=122)
    assert await checkpoints(host, thread_id) == 1, "it expires again and again"


async def test_a_thread_with_a_run_is_left_alone(host: Host) -> None:
    thread_id = await thread_on(host)
    run = await start(host, "slow", thread_id=thread_id)
    await sweep(host, after_minutes=6000)
    assert await found(host, thread_id) is not None
    assert run.ending is None and not run.stopping.is_set()
    await host.runs.stop(run.run_id)
    await sweep(host, after_minutes=6000 + PAUSE_MINUTES - 1)
    assert await found(host, thread_id) is not None, "looked at again after a while"
    await sweep(host, after_minutes=6000 + PAUSE_MINUTES)
    assert await found(host, thread_id) is None


async def test_a_run_that_comes_while_its_thread_is_removed_begins_after_that(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread_id, removing, go_on = await thread_on(host, "one"), asyncio.Event(), asyncio.Event()
    adelete_thread = host.checkpointer.adelete_thread

    async def held(removed: str) -> None:
        removing.set()
        await go_on.wait()
        await adelete_thread(removed)

    monkeypatch.setattr(host.checkpointer, "adelete_thread", held)
    sweeping = asyncio.create_task(sweep(host))
    await removing.wait()
    run = await start(host, "two", thread_id=thread_id)
    go_on.set()
    await sweeping
    await run.ended.wait()
    assert (len(run.values["messages"]), answer(run)) == (2, "echo: two")
    assert await checkpoints(host, thread_id) > 0


async def test_a_sweep_that_is_cancelled_finishes_the_thread_that_it_is_at(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        await thread_on(host, "one")
    removing, go_on, removed = asyncio.Event(), asyncio.Event(), list[str]()
    adelete_thread = host.checkpointer.adelete_thread

    async def held(thread_id: str) -> None:
        removing.set()
        await go_on.wait()
        await adelete_thread(thread_id)
        removed.append(thread_id)

    monkeypatch.setattr(host.checkpointer, "adelete_thread", held)
    sweeping = asyncio.create_task(sweep(host))
    await removing.wait()
    sweeping.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await sweeping
    assert len(removed) == 1
    left = await host.database.stores.ttls.due(utc_now() + timedelta(days=1), 10)
    assert len(left) == 1 and left != removed


@pytest.mark.parametrize("is_there_again", [False, True])
async def test_what_could_not_be_removed_is_removed_later(
    host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_there_again: bool
) -> None:
    expired = [await thread_on(host, "hello") for _ in range(3)]

    async def broken(_: str) -> None:
        raise OSError("the disk is away")

    with monkeypatch.context() as patched:
        patched.setattr(host.checkpointer, "adelete_thread", broken)
        await sweep(host)
    line = "expired threads could not be swept, which is tried again: thread {}: the disk is away"
    assert warnings(caplog) == [line.format(expired[0])]
    assert [await found(host, thread_id) for thread_id in expired] == [None] * 3
    if is_there_again:
        await host.database.stores.threads.create(new_thread(None, thread_id=expired[0]))
    await sweep(host, after_minutes=61 + PAUSE_MINUTES)
    left = [await checkpoints(host, thread_id) > 0 for thread_id in expired]
    assert left == [is_there_again, False, False], "a thread of the same name keeps its states"
    assert len(warnings(caplog)) == 1


async def test_what_fails_goes_behind_all_others(
    host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sweep_module, "MAX_SWEPT", 2)
    failing = [await thread_on(host, "hello", strategy="keep_latest") for _ in range(2)]
    others = [await thread_on(host) for _ in range(3)]
    broken = True
    prune = host.sweep._prune

    async def pruned(thread_id: str) -> None:
        if broken:
            raise NotImplementedError("not these")
        await prune(thread_id)

    monkeypatch.setattr(host.sweep, "_prune", pruned)
    left = []
    for _ in range(3):
        await sweep(host)
        left.append(sum([await found(host, thread_id) is not None for thread_id in others]))
    assert left == [3, 1, 0], "each sweep is bounded"
    line = "expired threads could not be swept, which is tried again: thread {}: not these"
    assert warnings(caplog) == [line.format(failing[0])]
    broken = False
    await sweep(host)
    assert min([await checkpoints(host, thread_id) for thread_id in failing]) > 1, "not at once"
    await sweep(host, after_minutes=61 + PAUSE_MINUTES)
    assert [await checkpoints(host, thread_id) for thread_id in failing] == [1, 1]


async def test_what_fails_late_in_a_long_sweep_is_nobody_elses_for_as_long_as_other_threads(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        await thread_on(host, "hello", strategy="keep_latest")
    clock, failed = [0.0], list[str]()

    async def slow(thread_id: str) -> None:
        clock[0] += 600
        failed.append(thread_id)
        raise NotImplementedError("not these")

    monkeypatch.setattr(host.sweep, "_prune", slow)
    monkeypatch.setattr(sweep_module, "monotonic", lambda: clock[0])
    now = utc_now() + timedelta(minutes=61)
    await host.sweep.sweep(now)
    monkeypatch.undo()
    again = [await host.database.stores.ttls.get(thread_id) for thread_id in failed]
    assert [expiry and expiry.expires_at - now for expiry in again] == [
        SWEEP_PAUSE,
        SWEEP_PAUSE + timedelta(minutes=10),
    ]


@pytest.mark.parametrize("broken", ["due", "expire"])
async def test_a_database_that_is_away_is_one_line_and_asked_again(
    host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    expired = [await thread_on(host) for _ in range(3)]
    asked = []

    async def away(*arguments: Any) -> None:
        asked.append(arguments)
        raise DatabaseUnavailableError("the database is away")

    with monkeypatch.context() as patched:
        patched.setattr(host.database.stores.ttls, broken, away)
        await sweep(host)
    assert len(asked) == 1
    assert warnings(caplog) == [
        "expired threads could not be swept, which is tried again: the database is away"
    ]
    await sweep(host)
    assert [await found(host, thread_id) for thread_id in expired] == [None] * 3


async def test_a_host_that_shuts_down_sweeps_nothing_more(host: Host) -> None:
    thread_id = await thread_on(host)
    host.runs.stop_accepting()
    await sweep(host)
    assert await found(host, thread_id) is not None


async def test_a_host_sweeps_at_its_start_and_again_and_again(
    lasting_config: AppConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, options = on(lasting_config, tmp_path), HostOptions(drain_seconds=0.0)
    at_once = ThreadTtl(1e-6)

    async def gone(host: Host, thread: ThreadRecord) -> bool:
        return await found(host, thread.thread_id) is None

    async with open_host(config, options) as host:
        left = await host.database.stores.threads.create(new_thread(None), ttl=at_once)
    async with open_host(config, options) as host:
        await until(lambda: gone(host, left))
    monkeypatch.setattr(sweep_module, "SWEEP_SECONDS", 0.01)
    async with open_host(config, options) as host:
        for _ in range(2):
            thread = await host.database.stores.threads.create(new_thread(None), ttl=at_once)
            await until(lambda thread=thread: gone(host, thread))


async def test_a_host_sweeps_once_at_each_tick(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    moments, tick = [], asyncio.Event()

    async def swept(now: datetime) -> None:
        moments.append(now)
        await asyncio.sleep(0)

    monkeypatch.setattr(host.sweep, "sweep", swept)
    sweeper = asyncio.create_task(host.sweep.run(tick))  # the host's own waits for a minute
    counts = []
    for _ in range(3):
        for _ in range(5):
            await asyncio.sleep(0)
        counts.append(len(moments))
        tick.set()
    sweeper.cancel()
    assert counts == [1, 2, 3]


@pytest.mark.parametrize("strategy", ["delete", "keep_latest"])
async def test_hosts_that_sweep_at_once_get_in_nobodys_way(
    lasting_config: AppConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture, strategy: TtlStrategy
) -> None:
    config, options = on(lasting_config, tmp_path), HostOptions(drain_seconds=0.0)
    caplog.set_level(logging.INFO, LOG)
    async with open_host(config, options) as first, open_host(config, options) as second:
        expired = [await thread_on(first, "hello", strategy=strategy) for _ in range(6)]
        thread_id = str(uuid4())
        await finished(second, "hello", thread_id=thread_id)
        await asyncio.gather(*(sweep(host) for host in (first, second)))
        left = [await checkpoints(second, thread_id) for thread_id in expired]
        assert left == [0 if strategy == "delete" else 1] * 6
        assert answer(await finished(first, "again", thread_id=thread_id)) == "echo: again"
    lines = [record.getMessage() for record in caplog.records if record.name == LOG]
    assert sum(int(line.split()[0]) for line in lines) == 6
    assert warnings(caplog) == []


async def test_what_a_killed_host_left_of_a_thread_is_removed_by_another_one(
    lasting_config: AppConfig, tmp_path: Path
) -> None:
    config, options = on(lasting_config, tmp_path, [ASKING]), HostOptions(drain_seconds=0.0)
    async with open_host(config, options) as host:
        thread_id = await thread_on(host, "ask")
        now = utc_now() + timedelta(minutes=61)
        assert await host.database.stores.ttls.expire(thread_id, now) == "delete"
    async with open_host(config, options) as host:
        workspace = host.config.workspace_path(thread_id)
        assert (await checkpoints(host, thread_id) > 0, workspace.exists()) == (True, True)
        await host.sweep.sweep(now + SWEEP_PAUSE)
        assert (await checkpoints(host, thread_id), workspace.parent.exists()) == (0, False)
        assert await host.database.stores.ttls.due(now + timedelta(days=1), 10) == []
