"""Users who keep a host busy until its process is killed, and what they were promised."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from uuid import uuid4

from langchain_core.messages import HumanMessage

from deerflow.config import config_from
from deerflow.errors import ConflictError
from deerflow.host import Host, HostOptions, open_host
from deerflow.runs.active import ActiveRun
from deerflow.runs.record import ThreadRecord
from deerflow.runs.request import RunRequest

USERS = 5
STRATEGIES = ("enqueue", "enqueue", "enqueue", "interrupt", "rollback", "reject")

_WRITE = {"name": "write_file", "args": {"path": "{prompt}.txt", "content": "x"}}
WORK = {
    "when": "^work",
    "turns": [
        {"delay_seconds": 0.01, "tool_calls": [{**_WRITE, "id": "call-1"}]},
        {"delay_seconds": 0.02, "tool_calls": [{**_WRITE, "id": "call-2"}]},
        {"delay_seconds": 0.01, "text": "done: {prompt}"},
    ],
}


@dataclass(frozen=True)
class Started:
    """A run that a caller was told of."""

    run_id: str
    thread_id: str
    text: str
    strategy: str


@dataclass(frozen=True)
class Ended:
    """How a run ended, as its caller was told."""

    run_id: str
    status: str


@dataclass(frozen=True)
class Shown:
    """Events of a run that somebody has seen."""

    run_id: str
    thread_id: str
    seqs: tuple[int, ...]


@dataclass(frozen=True)
class Made:
    """A thread that a caller made."""

    thread_id: str


@dataclass(frozen=True)
class Updated:
    """A message that a caller put into a thread's state."""

    thread_id: str
    text: str


def keep_busy(
    told: Connection, values: dict[str, Any], home: str, thread_ids: Sequence[str], seed: int
) -> None:
    """Let users work on a few threads, and tell every promise as soon as it is made."""
    asyncio.run(_keep_busy(told, values, Path(home), thread_ids, random.Random(seed)))


async def _keep_busy(
    told: Connection, values: dict[str, Any], home: Path, thread_ids: Sequence[str], chance: random.Random
) -> None:
    async with open_host(config_from(values).based_in(home), HostOptions(drain_seconds=0.0)) as host:
        users = [_User(host, told, thread_ids, random.Random(chance.random())) for _ in range(USERS)]
        await asyncio.gather(*(user.work() for user in users))


class _User:
    def __init__(
        self, host: Host, told: Connection, thread_ids: Sequence[str], chance: random.Random
    ) -> None:
        self._host = host
        self._told = told
        self._thread_ids = thread_ids
        self._chance = chance
        self._waits: set[asyncio.Task[None]] = set()

    async def work(self) -> None:
        deeds = (self._run, self._make, self._update)
        while True:
            with suppress(ConflictError):
                await self._chance.choices(deeds, (8, 1, 2))[0]()
            await asyncio.sleep(self._chance.uniform(0, 0.05))

    async def _run(self) -> None:
        thread_id, run_id = self._chance.choice(self._thread_ids), str(uuid4())
        text, strategy = f"work {run_id}", self._chance.choice(STRATEGIES)
        run = await self._host.runs.start(
            RunRequest(
                thread_id,
                run_id=run_id,
                input={"messages": [HumanMessage(text)]},
                multitask_strategy=strategy,  # type: ignore[arg-type]
                if_not_exists="create",
            )
        )
        self._told.send(Started(run_id, thread_id, text, strategy))
        wait = asyncio.create_task(self._wait(run))
        self._waits.add(wait)
        wait.add_done_callback(self._waits.discard)
        if self._chance.random() < 0.7:
            await wait

    async def _wait(self, run: ActiveRun) -> None:
        await run.ended.wait()
        record = await self._host.database.stores.runs.get(run.run_id)
        if record is not None:
            self._told.send(Ended(run.run_id, record.status.value))
        events = await self._host.database.stores.events.list(run.thread_id, run.run_id)
        if record is not None and events:
            self._told.send(Shown(run.run_id, run.thread_id, tuple(event.seq for event in events)))

    async def _make(self) -> None:
        thread = await self._host.database.stores.threads.create(ThreadRecord(str(uuid4())))
        self._told.send(Made(thread.thread_id))

    async def _update(self) -> None:
        thread = await self._host.database.stores.threads.get(self._chance.choice(self._thread_ids))
        if thread is not None:
            text = f"note {uuid4()}"
            values = {"messages": [HumanMessage(text)]}
            await self._host.states.update(thread, values, as_node=None, checkpoint_id=None)
            self._told.send(Updated(thread.thread_id, text))
