"""Hosts that are killed at any moment, under load, keep what they have promised."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support import mortal
from support.crashes import event_types, lasting, lasting_values, settled
from support.load import WORK, Ended, Made, Shown, Started, Updated, keep_busy
from support.mortal import process, said

from deerflow.config import AppConfig
from deerflow.host import Host, HostOptions, open_host
from deerflow.runs.record import RunRecord, RunStatus, ThreadStatus

THREADS = 3
LIFE_SECONDS = 0.5
LEASE_SECONDS = 0.3


def _dies(marker: Path) -> dict[str, Any]:
    """A rule: the model calls a tool that kills the process once, and another one."""
    fatal = {"name": "fatal", "args": {"marker": str(marker)}, "id": "call-1"}
    write = {"name": "write_file", "args": {"path": "a.txt", "content": "x"}, "id": "call-2"}
    turns = [{"tool_calls": [fatal]}, {"tool_calls": [write]}, {"text": "done: {prompt}"}]
    return {"when": "^die", "turns": turns}


@pytest.mark.parametrize(
    "kills",
    [10, pytest.param(200, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])],
)
async def test_killed_hosts_keep_what_they_promised(
    lasting_config: AppConfig, tmp_path: Path, kills: int
) -> None:
    rules = [WORK, _dies(tmp_path / "marker")]
    values = lasting_values(
        lasting_config, rules, runs={"lease_seconds": LEASE_SECONDS}, tools=[{"use": "support.mortal:fatal"}]
    )
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # shown where the test fails, like the fates of its runs
    chance = random.Random(seed)
    promises = _Promises()
    for kill in range(kills):
        if kill % 10 == 0:
            thread_ids = [str(uuid4()) for _ in range(THREADS)]
        with process(keep_busy, values, str(tmp_path), thread_ids, chance.random()) as (child, told):
            # The first host lives until somebody has seen a run's events, however slow the machine is.
            promises.add(await asyncio.to_thread(_until, Shown if kill == 0 else object, told))
            await asyncio.sleep(chance.uniform(0, LIFE_SECONDS))
            child.kill()
            child.join()
            promises.add(_rest(told))
    fatal = await _die_of_a_run(values, tmp_path)
    promises.add([fatal])
    async with open_host(lasting(values, tmp_path), HostOptions(drain_seconds=0.0)) as host:
        await settled(host)
        await promises.check(host)
        taken_up = await host.database.stores.runs.get(fatal.run_id)
        assert taken_up is not None
        assert (taken_up.status, taken_up.attempt) == (RunStatus.SUCCESS, 2)


async def _die_of_a_run(values: dict[str, Any], home: Path) -> Started:
    """A run that kills its host once, after its first checkpoints; nobody is there to take it up yet."""
    promise = Started(str(uuid4()), str(uuid4()), "die", "enqueue")
    request = {
        "thread_id": promise.thread_id,
        "run_id": promise.run_id,
        "input": said(promise.text),
        "durability": "sync",
    }
    with process(mortal.host, values, str(home), [request]) as (child, _):
        await asyncio.to_thread(child.join, 60)
        assert child.exitcode == -signal.SIGKILL
    return promise


def _until(kind: type, told: Connection) -> list[Any]:
    """What was told, up to the first thing of a kind."""
    promises: list[Any] = []
    while not (promises and isinstance(promises[-1], kind)):
        assert told.poll(60), "the host did not come up"
        promises.append(told.recv())
    return promises


def _rest(told: Connection) -> Iterable[Any]:
    while told.poll():
        try:
            yield told.recv()
        except (EOFError, OSError):
            return


class _Promises:
    """What callers were told, and whether it holds."""

    def __init__(self) -> None:
        self.started: dict[str, Started] = {}
        self.ended: dict[str, str] = {}
        self.shown: list[Shown] = []
        self.made: list[str] = []
        self.updated: list[Updated] = []

    def add(self, told: Iterable[Any]) -> None:
        for promise in told:
            match promise:
                case Started():
                    self.started[promise.run_id] = promise
                case Ended():
                    self.ended[promise.run_id] = promise.status
                case Shown():
                    self.shown.append(promise)
                case Made():
                    self.made.append(promise.thread_id)
                case Updated():
                    self.updated.append(promise)

    async def check(self, host: Host) -> None:
        records = {run_id: await host.database.stores.runs.get(run_id) for run_id in self.started}
        assert len(records) > len(self.shown) > 0
        threads: dict[str, list[Any]] = {}
        for thread_id in {promise.thread_id for promise in self.started.values()} | set(self.made):
            threads[thread_id] = await _messages(host, thread_id)
        for run_id, started in self.started.items():
            self._check_run(started, records[run_id], threads[started.thread_id])
        for run_id, status in self.ended.items():
            record = records[run_id]
            assert record is not None and record.status == status, (run_id, status, record)
        for update in self.updated:
            assert _texts(threads[update.thread_id]).count(update.text) == 1
        for messages in threads.values():
            _check_conversation(messages)
        await self._check_events(host, records)
        print(Counter(_fate(record) for record in records.values()))

    def _check_run(self, started: Started, record: RunRecord | None, messages: list[Any]) -> None:
        said = _texts(messages).count(started.text)
        if record is None:
            rivals = [s for s in self.started.values() if s.thread_id == started.thread_id]
            assert any(rival.strategy == "rollback" for rival in rivals), f"{started} is gone"
            assert said == 0, f"{started} was rolled back, and is there"
            assert started.run_id not in self.ended
        elif record.status is RunStatus.SUCCESS:
            assert said == 1, f"{started} succeeded, and was said {said} times"
            assert _texts(messages).count(f"done: {started.text}") == 1
        else:
            assert said <= 1
            assert record.stop_reason in ("host_lost", "interrupt", "rollback"), record

    async def _check_events(self, host: Host, records: dict[str, RunRecord | None]) -> None:
        for shown in self.shown:
            kept = await host.database.stores.events.list(shown.thread_id, shown.run_id)
            assert [event.seq for event in kept][: len(shown.seqs)] == list(shown.seqs)
        for record in records.values():
            if record is not None:
                types = await event_types(host, record)
                assert types.count("run.ended") == 1 and types[-1] == "run.ended", types
                if record.status is RunStatus.SUCCESS:
                    assert types.count("message.human") + types.count("message.input") == 1
                    assert types.count("message.tool") >= 2


def _fate(record: RunRecord | None) -> str:
    if record is None:
        return "rolled back"
    return f"{record.status.value}, {'taken up' if record.attempt > 1 else 'begun once'}"


async def _messages(host: Host, thread_id: str) -> list[Any]:
    thread = await host.database.stores.threads.get(thread_id)
    assert thread is not None, f"thread {thread_id} is gone"
    assert thread.status is not ThreadStatus.BUSY
    return list((await host.states.read(thread)).values.get("messages") or ())


def _texts(messages: list[Any]) -> list[str]:
    return [str(message.text) for message in messages]


def _check_conversation(messages: list[Any]) -> None:
    """Nothing was said twice, and no tool answered a call twice."""
    assert max(Counter(message.id for message in messages).values(), default=1) == 1
    for place, message in enumerate(messages):
        if message.type == "tool":
            turn = next(m for m in reversed(messages[:place]) if m.type == "ai")
            assert message.tool_call_id in [call["id"] for call in turn.tool_calls]
