"""Hosts that are killed at any moment, under load, keep what they have promised."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.crashes import event_types, lasting, lasting_values, settled
from support.load import WORK, Ended, Made, Shown, Started, Updated, keep_busy
from support.mortal import process

from deerflow.config import AppConfig
from deerflow.host import Host, HostOptions, open_host
from deerflow.runs.record import RunRecord, RunStatus, ThreadStatus

THREADS = 3
LIFE_SECONDS = 0.5
LEASE_SECONDS = 0.3


@pytest.mark.parametrize(
    "kills",
    [10, pytest.param(200, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])],
)
async def test_killed_hosts_keep_what_they_promised(
    lasting_config: AppConfig, tmp_path: Path, kills: int
) -> None:
    values = lasting_values(lasting_config, [WORK], runs={"lease_seconds": LEASE_SECONDS})
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # shown where the test fails
    chance = random.Random(seed)
    promises = _Promises()
    for kill in range(kills):
        if kill % 10 == 0:
            thread_ids = [str(uuid4()) for _ in range(THREADS)]
        with process(keep_busy, values, str(tmp_path), thread_ids, chance.random()) as (child, told):
            first = await asyncio.to_thread(_first, told)
            await asyncio.sleep(chance.uniform(0, LIFE_SECONDS))
            child.kill()
            child.join()
            promises.add([first, *_rest(told)])
    async with open_host(lasting(values, tmp_path), HostOptions(drain_seconds=0.0)) as host:
        await settled(host)
        await promises.check(host)


def _first(told: Connection) -> Any:
    assert told.poll(60), "the host did not come up"
    return told.recv()


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
        taken_up = [record for record in records.values() if record is not None and record.attempt > 1]
        assert any(record.status is RunStatus.SUCCESS for record in taken_up)

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
