"""What a host knows of a run and what its database says of it agree in the end, whatever fails between."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from deerflow_extension_api import TaskOutcome
from support.crashes import ended, event_types, lasting, lasting_values, messages_on, settled, until
from support.extensions import Seen, installed, recording
from support.held import watched
from support.hosts import answer, finished, start
from support.records import start_run

from deerflow.config import AppConfig, config_from
from deerflow.host import Host, HostOptions, open_host
from deerflow.persistence import Database, DatabaseUnavailableError, locate_database, open_database
from deerflow.runs import finish
from deerflow.runs.hosts.presence import Presence
from deerflow.runs.hosts.watch import Watch
from deerflow.runs.record import ACTIVE_STATUSES, RunStatus, ThreadStatus
from deerflow.runs.stores import ThreadQuery

WAIT = {"name": "wait", "args": {"name": "x", "seconds": 30}, "id": "call-1"}
RULES = [{"when": "^wait", "turns": [{"tool_calls": [WAIT]}, {"text": "waited"}]}]


@pytest.fixture
def values(lasting_config: AppConfig) -> dict[str, Any]:
    return lasting_values(lasting_config, RULES, tools=[{"use": "support.tools:wait"}])


@pytest.fixture
async def host(values: dict[str, Any], tmp_path: Path) -> AsyncIterator[Host]:
    async with open_host(lasting(values, tmp_path), HostOptions(drain_seconds=0.0)) as opened:
        yield opened


async def test_an_end_that_could_not_be_written_is_written_later(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, move = Seen(), host.database.stores.runs.move
    is_away = True

    async def failing(run_id: str, status: RunStatus, **details: Any) -> Any:
        if is_away and status not in ACTIVE_STATUSES:
            raise DatabaseUnavailableError("away on purpose")
        return await move(run_id, status, **details)

    monkeypatch.setattr(host.database.stores.runs, "move", failing)
    monkeypatch.setattr(finish, "_WRITE_ATTEMPTS", 1)
    with installed(recording(seen)):
        run = await finished(host, "hello")
        waiting = await start(host, "again", thread_id=run.thread_id)
        record = await host.database.stores.runs.get(run.run_id)
        assert record is not None and record.status is RunStatus.RUNNING
        is_away = False
        record = await ended(host, run.run_id)
    assert (record.status, record.attempt) == (RunStatus.SUCCESS, 1)
    assert await event_types(host, record) == ["message.human", "message.ai", "run.ended"]
    assert seen.outcomes[run.run_id] is TaskOutcome.COMPLETED
    assert [task_id for hook, _, task_id in seen.events if hook == "stop"].count(run.run_id) == 1
    await waiting.ended.wait()
    assert answer(waiting) == "echo: again"


async def test_an_end_that_could_not_be_written_is_written_before_the_host_is_gone(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values["runs"] = {"lease_seconds": 60}  # nothing is looked after meanwhile
    monkeypatch.setattr(finish, "_WRITE_ATTEMPTS", 1)
    async with open_host(lasting(values, tmp_path), HostOptions(drain_seconds=0.0)) as host:
        with monkeypatch.context() as away:
            away.setattr(host.database.stores.runs, "move", None)
            run = await start(host, "hello")
            await run.ended.wait()
    async with open_database(lasting(values, tmp_path)) as database:
        record = await database.stores.runs.get(run.run_id)
        assert record is not None and record.status not in ACTIVE_STATUSES


async def test_a_run_whose_admission_was_not_heard_of_is_ended(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, run_id, thread_id = host.database.stores.runs.create, str(uuid4()), str(uuid4())

    async def deaf(*arguments: Any, **named: Any) -> Any:
        await create(*arguments, **named)
        raise DatabaseUnavailableError("the answer was lost on purpose")

    monkeypatch.setattr(host.database.stores.runs, "create", deaf)
    with pytest.raises(DatabaseUnavailableError):
        await start(host, "hello", run_id=run_id, thread_id=thread_id)
    monkeypatch.undo()
    record = await ended(host, run_id)
    assert (record.status, record.stop_reason, record.attempt) == (RunStatus.ERROR, "host_lost", 1)
    assert await event_types(host, record) == ["run.ended"]
    assert answer(await finished(host, "hello", thread_id=thread_id)) == "echo: hello"


async def test_runs_under_way_and_arriving_are_never_taken_for_strays(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, create = watched(monkeypatch, host.runs, "heed"), host.database.stores.runs.create

    async def slowly(*arguments: Any, **named: Any) -> Any:
        admission, before = await create(*arguments, **named), len(looks)
        await until(lambda: len(looks) > before + 1)  # the second one has begun after the record was there
        return admission

    with monkeypatch.context() as arriving:
        arriving.setattr(host.database.stores.runs, "create", slowly)
        runs = [await start(host, text) for text in ("wait", "hello")]
    before = len(looks)
    await until(lambda: len(looks) > before + 1)
    for run, reason in zip(runs, ("cancelled", None), strict=True):
        if reason is None:
            await run.ended.wait()
        assert await host.runs.stop(run.run_id) == (reason is not None)
        assert run.ending is not None and run.ending.stop_reason == reason


async def test_what_runs_write_at_the_end_is_there_after_a_slow_shutdown(
    values: dict[str, Any], tmp_path: Path
) -> None:
    config = lasting(values, tmp_path)
    async with open_host(config, HostOptions(drain_seconds=0.0)) as host:
        run = await start(host, "wait")
        await until(lambda: len(run.values.get("messages") or ()) == 2)
        _hold_writes(config, seconds=0.3)
    async with open_host(config, HostOptions(drain_seconds=0.0)) as host:
        record = await ended(host, run.run_id)
        assert (record.status, record.stop_reason) == (RunStatus.INTERRUPTED, "shutdown")
        assert await messages_on(host, run.thread_id) == [("human", "wait"), ("ai", "")]


def _hold_writes(config: AppConfig, *, seconds: float) -> None:
    """Let nobody write for a while, from now on."""
    held = threading.Event()
    location = locate_database(config)

    def hold() -> None:
        if location.path is not None:
            with closing(sqlite3.connect(location.path, isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                held.set()
                threading.Event().wait(seconds)
                connection.execute("COMMIT")
        else:
            with psycopg.connect(location.libpq_url) as connection:
                connection.execute("LOCK TABLE checkpoints, checkpoint_writes, runs IN EXCLUSIVE MODE")
                held.set()
                threading.Event().wait(seconds)

    threading.Thread(target=hold).start()
    assert held.wait(10)


async def test_history_is_there_after_a_restart_for_its_owner_alone(
    values: dict[str, Any], tmp_path: Path
) -> None:
    config, thread_id = lasting(values, tmp_path), str(uuid4())
    async with open_host(config) as host:
        runs = [await finished(host, text, thread_id=thread_id, user_id="ada") for text in "abc"]
        thread = await host.database.stores.threads.get(thread_id)
        assert thread is not None
        states = await host.states.history(thread, limit=100)
    async with open_host(config) as host:
        listed = await host.database.stores.runs.list_by_thread(thread_id)
        assert [run.run_id for run in listed] == [run.run_id for run in reversed(runs)]
        assert [state.values for state in await host.states.history(thread, limit=100)] == [
            state.values for state in states
        ]
        found = {user: ThreadQuery(user_id=user) for user in ("ada", "bob")}
        assert len(await host.database.stores.threads.search(found["ada"])) == 1
        assert await host.database.stores.threads.search(found["bob"]) == []
        assert await host.database.stores.threads.get(thread_id, user_id="bob") is None
        assert thread.status is ThreadStatus.IDLE
        await settled(host)


@pytest.mark.postgres
async def test_a_host_that_was_late_itself_lets_others_show_themselves(
    postgres_url: str, tmp_path: Path
) -> None:
    database = {"backend": "postgres", "url": postgres_url}
    config = config_from({"database": database}).based_in(tmp_path)
    async with open_host(config) as host, open_database(config) as shared:
        hosts = shared.stores.hosts
        assert hosts is not None
        watch = Watch(host.runs, Presence(hosts, lease_seconds=0.3), hosts)
        await watch.beat()
        await hosts.beat("late as well", -1.0)
        run = await start_run(shared, host_id="late as well")
        await asyncio.sleep(0.4)
        await watch.beat()
        assert await _host_of(shared, run.run_id) == "late as well"

        async def is_judged() -> bool:
            await watch.beat()
            return await _host_of(shared, run.run_id) != "late as well"

        await until(is_judged)


async def _host_of(database: Database, run_id: str) -> str | None:
    record = await database.stores.runs.get(run_id)
    assert record is not None
    return record.host_id
