"""Two hosts on one database: a thread has one run at a time, and each can stop the runs of the other."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from support.crashes import (
    ended,
    event_types,
    lasting,
    lasting_values,
    let_leases_end,
    messages_on,
    settled,
    until,
)
from support.held import Held, watched
from support.hosts import answer, finished, start
from support.mortal import host as mortal_host
from support.mortal import process, said

from deerflow.config import AppConfig, config_from
from deerflow.host import Host, HostOptions, open_host
from deerflow.persistence import open_database
from deerflow.runs import finish
from deerflow.runs.hosts import presence, watch
from deerflow.runs.hosts.presence import Presence
from deerflow.runs.record import RunLostError, RunStatus, ThreadBusyError, ThreadStatus

SLOW = {"when": "^slow", "turns": [{"delay_seconds": 30, "text": "too late"}]}
LONG_LEASE = {"lease_seconds": 60.0}
"""However long the machine pauses, no host takes another one for dead."""


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(watch, "BEATS_PER_LEASE", 600)


@pytest.fixture
def values(lasting_config: AppConfig) -> dict[str, Any]:
    return lasting_values(lasting_config, [SLOW], runs=LONG_LEASE)


@pytest.fixture
async def hosts(values: dict[str, Any], tmp_path: Path) -> AsyncIterator[tuple[Host, Host]]:
    config, options = lasting(values, tmp_path), HostOptions(drain_seconds=0.0)
    async with open_host(config, options) as first, open_host(config, options) as second:
        yield first, second


def on_postgres(url: str) -> AppConfig:
    return config_from({"database": {"backend": "postgres", "url": url}})


async def under_way(host: Host, run_id: str) -> None:
    async def is_running() -> bool:
        record = await host.database.stores.runs.get(run_id)
        return record is not None and record.status is RunStatus.RUNNING

    await until(is_running)


async def test_a_run_waits_for_that_of_the_other_host(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = hosts
    ending = Held(monkeypatch, finish, "save_ending")
    run = await start(first, "steady")
    await ending.reached.wait()
    waiting = await start(second, "hello", thread_id=run.thread_id)
    ending.let_go.set()
    await waiting.ended.wait()
    assert run.ending is not None and run.ending.status is RunStatus.SUCCESS
    assert [str(message.text) for message in waiting.values["messages"]] == [
        "steady", "echo: steady", "hello", "echo: hello",
    ]  # fmt: skip


async def test_a_run_that_rejects_others_sees_that_of_the_other_host(hosts: tuple[Host, Host]) -> None:
    first, second = hosts
    run = await start(first, "slow")
    with pytest.raises(ThreadBusyError, match="reject"):
        await start(second, "hello", thread_id=run.thread_id, multitask_strategy="reject")
    assert len(await first.database.stores.runs.list_by_thread(run.thread_id)) == 1


@pytest.mark.parametrize("strategy", ["interrupt", "rollback"])
async def test_a_run_replaces_that_of_the_other_host(hosts: tuple[Host, Host], strategy: str) -> None:
    first, second = hosts
    kept = await finished(first, "kept")
    run = await start(first, "slow", thread_id=kept.thread_id)
    waiting = await start(first, "never", thread_id=kept.thread_id)

    async def is_kept() -> bool:
        return (await messages_on(first, kept.thread_id))[-1] == ("human", "slow")

    await until(is_kept)
    replacing = await finished(second, "hello", thread_id=kept.thread_id, multitask_strategy=strategy)
    assert answer(replacing) == "echo: hello"
    texts = [text for _, text in await messages_on(second, kept.thread_id)]
    await until(lambda: first.runs.find(waiting.run_id) is None)
    records = [await first.database.stores.runs.get(replaced.run_id) for replaced in (run, waiting)]
    if strategy == "rollback":
        assert records == [None, None]
        assert texts == ["kept", "echo: kept", "hello", "echo: hello"]
    else:
        assert [record and record.stop_reason for record in records] == ["interrupt", "interrupt"]
        assert texts == ["kept", "echo: kept", "slow", "hello", "echo: hello"]
    thread = await first.database.stores.threads.get(kept.thread_id)
    assert thread is not None and thread.status is ThreadStatus.IDLE


@pytest.mark.parametrize("reason", ["cancelled", "rollback"])
async def test_a_run_is_stopped_through_the_other_host(hosts: tuple[Host, Host], reason: str) -> None:
    first, second = hosts
    run = await start(first, "slow")
    await under_way(first, run.run_id)
    assert await second.runs.stop(run.run_id, reason=reason)
    record = await second.database.stores.runs.get(run.run_id)
    if reason == "rollback":
        assert record is None
        assert await messages_on(second, run.thread_id) == []
    else:
        assert record is not None
        assert (record.status, record.stop_reason) == (RunStatus.INTERRUPTED, "cancelled")
    assert not await second.runs.stop(run.run_id)
    assert not await second.runs.stop(str(uuid4()))


async def test_the_first_of_several_requests_to_stop_counts(
    hosts: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = hosts
    hearing = Held(monkeypatch, first.runs, "heed")
    run = await start(first, "slow")
    await hearing.reached.wait()
    assert await second.runs.stop(run.run_id, wait=False)
    assert await second.runs.stop(run.run_id, reason="rollback", wait=False)
    hearing.let_go.set()
    assert (await ended(first, run.run_id)).stop_reason == "cancelled"


async def test_a_thread_is_removed_with_the_runs_of_the_other_host(hosts: tuple[Host, Host]) -> None:
    first, second = hosts
    run = await start(first, "slow")
    await under_way(first, run.run_id)
    assert await second.runs.remove(run.thread_id)
    assert run.ending is not None and run.ending.stop_reason == "deleted"
    assert await first.database.stores.runs.get(run.run_id) is None
    place: Any = {"configurable": {"thread_id": run.thread_id, "checkpoint_ns": ""}}
    assert await second.checkpointer.aget_tuple(place) is None


async def test_a_run_whose_record_the_other_host_removes_stops(hosts: tuple[Host, Host]) -> None:
    first, second = hosts
    run = await start(first, "slow")
    await under_way(first, run.run_id)
    assert await second.database.stores.runs.delete(run.run_id, thread_id=run.thread_id)
    await asyncio.wait_for(run.ended.wait(), 10)


async def test_many_runs_of_both_hosts_take_turns(hosts: tuple[Host, Host]) -> None:
    thread_id = str(uuid4())
    texts = [f"say {number}" for number in range(12)]
    runs = [await start(hosts[n % 2], text, thread_id=thread_id) for n, text in enumerate(texts)]
    for run in runs:
        await asyncio.wait_for(run.ended.wait(), 30)
        assert run.ending is not None and run.ending.status is RunStatus.SUCCESS
    messages = [text for _, text in await messages_on(hosts[0], thread_id)]
    assert sorted(messages[::2]) == sorted(texts)
    assert messages[1::2] == [f"echo: {text}" for text in messages[::2]]


@pytest.mark.postgres
async def test_a_host_asks_before_its_runs_write(postgres_url: str, tmp_path: Path) -> None:
    values = lasting_values(on_postgres(postgres_url))
    async with open_host(lasting(values, tmp_path), HostOptions(drain_seconds=0.0)) as host:
        asked, fence = [], host.checkpointer.fence
        assert fence is not None

        def listening(run_id: str | None) -> Any:
            asked.append(run_id)
            return fence(run_id)

        host.checkpointer.fence = listening
        run = await finished(host, "hello")
        assert run.ending is not None and run.ending.status is RunStatus.SUCCESS
    assert len(asked) > 2 and set(asked) == {run.run_id}


async def test_the_run_of_a_killed_host_is_stopped_through_the_other_one(
    values: dict[str, Any], tmp_path: Path
) -> None:
    run_id, thread_id = str(uuid4()), str(uuid4())
    async with open_host(lasting(values, tmp_path), HostOptions(drain_seconds=0.0)) as host:
        request = {"thread_id": thread_id, "run_id": run_id, "input": said("slow")}
        with process(mortal_host, values, str(tmp_path), [request]) as (child, _):
            await under_way(host, run_id)
            child.kill()
            child.join()
            await let_leases_end(host)
            assert await host.runs.stop(run_id)
        record = await ended(host, run_id)
        assert (record.status, record.stop_reason) == (RunStatus.INTERRUPTED, "cancelled")
        assert answer(await finished(host, "hello", thread_id=thread_id)) == "echo: hello"


@pytest.mark.postgres
async def test_a_paused_host_does_not_write_over_its_heir(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    call = {"name": "pass_gate", "args": {"gate": str(gate)}, "id": "call-1"}
    rule = {"when": "^pause", "turns": [{"tool_calls": [call]}, {"text": "done: {tool_results}"}]}
    values = lasting_values(on_postgres(postgres_url), [rule], tools=[{"use": "support.mortal:pass_gate"}])
    run_id, thread_id = str(uuid4()), str(uuid4())
    config = lasting({**values, "runs": LONG_LEASE}, tmp_path)
    async with open_host(config, HostOptions(drain_seconds=0.0)) as host:
        inheriting = Held(monkeypatch, host.database.stores.hosts, "inherit")
        request = {"thread_id": thread_id, "run_id": run_id, "input": said("pause"), "durability": "sync"}
        with process(mortal_host, values, str(tmp_path), [request]) as (child, told):
            await until(lambda: _in_the_tool(host, thread_id))
            assert child.pid is not None
            await _pause(child.pid, postgres_url)
            gate.touch()
            inheriting.let_go.set()
            record = await ended(host, run_id)
            assert (record.status, record.attempt) == (RunStatus.SUCCESS, 2)
            before = await messages_on(host, thread_id), await event_types(host, record)
            os.kill(child.pid, signal.SIGCONT)
            assert await asyncio.to_thread(_told, told, ("ended", run_id)) == "host_lost"
            await asyncio.sleep(0.2)
            assert await host.database.stores.runs.get(run_id) == record
            assert (await messages_on(host, thread_id), await event_types(host, record)) == before
        await settled(host)


def _told(told: Any, what: Any) -> Any:
    """What the child says about `what`."""
    while told.poll(60):
        match told.recv():
            case (kind, run_id, reason) if (kind, run_id) == what:
                return reason
    raise AssertionError("the child said nothing")


async def _pause(pid: int, postgres_url: str) -> None:
    """Pause a process while it is in no transaction, whose locks would keep its heir away."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        while True:
            os.kill(pid, signal.SIGSTOP)
            await until(lambda: _transactions(connection, "active") == 0)
            if _transactions(connection, "idle in transaction") == 0:
                return
            os.kill(pid, signal.SIGCONT)


def _transactions(connection: psycopg.Connection, state: str) -> int:
    """How many other sessions of this database are in such a state."""
    found = connection.execute(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid != pg_backend_pid() AND state = %s",
        [state],
    ).fetchone()
    assert found is not None
    return int(found[0])


async def _in_the_tool(host: Host, thread_id: str) -> bool:
    if await host.database.stores.threads.get(thread_id) is None:
        return False
    return [kind for kind, _ in await messages_on(host, thread_id)] == ["human", "ai"]


@pytest.mark.postgres
async def test_a_host_that_comes_late_asks_before_a_run_writes(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(presence, "time", SimpleNamespace(monotonic=lambda: now))
    async with open_database(on_postgres(postgres_url)) as database:
        hosts = database.stores.hosts
        assert hosts is not None
        beats = watched(monkeypatch, hosts, "beat")
        one = Presence(hosts, lease_seconds=10.0)
        await one.beat()
        now = 9.9
        await one.may_write("any run while the lease holds")
        assert len(beats) == 1
        now = 10.1
        await one.may_write(None)
        assert len(beats) == 2
        now = 20.2
        refused = [one.may_write("run of another host") for _ in range(5)]
        results = await asyncio.gather(*refused, return_exceptions=True)
        assert [type(result) for result in results] == [RunLostError] * 5
        assert len(beats) == 3  # they ask together
