"""A thread's events through a replica that does not have its runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text
from support.crashes import until
from support.gateways import GatewayClient, serving
from support.held import Held
from support.hosts import scripted_config
from support.lasting import lasting
from support.protocol import begin, ends, following, statuses
from support.redis_server import RedisServer

from deerflow.gateway.app import create_app
from deerflow.runs.hosts import watch
from deerflow.runs.record import ACTIVE_STATUSES

CHANNELS = ["lifecycle", "values", "messages"]
SLOW = {"when": "^slow", "turns": [{"delay_seconds": 30, "text": "too late"}]}


@asynccontextmanager
async def replicas(home: Path, redis: RedisServer | None = None) -> AsyncIterator[Any]:
    """Two started Gateways on one database."""
    stream: dict[str, Any] = {} if redis is None else {"backend": "redis", "url": redis.url}
    sections: Any = {"database": {"backend": "sqlite"}, "stream": stream, "shutdown": {"drain_seconds": 0.01}}
    apps = [create_app(scripted_config(home, [SLOW], **sections)) for _ in range(2)]
    async with serving(apps[0]) as first, serving(apps[1]) as second:
        yield first, second


@pytest.mark.redis
async def test_both_tell_the_same_under_the_same_numbers(tmp_path: Path, redis_server: RedisServer) -> None:
    async with replicas(tmp_path, redis_server) as (first, second):
        thread_id = str(uuid4())
        async with following(second, thread_id, CHANNELS) as elsewhere:
            for client, text in ((first, "one"), (first, "two"), (second, "three")):
                run_id = await begin(client, thread_id, text)
                await client.get(f"/threads/{thread_id}/runs/{run_id}/join")
            there = await elsewhere.until(ends(3))
        for client in (first, second):
            async with following(client, thread_id, CHANNELS) as stream:
                assert await stream.until(ends(3)) == there
    assert statuses(there) == ["running", "completed"] * 3
    answers = [
        event.data["params"]["data"]["messages"][-1]["content"] for event in there if event.name == "values"
    ]
    assert answers == ["one", "echo: one", "two", "echo: two", "three", "echo: three"]


async def test_without_shared_events_the_other_tells_that_a_run_was_there_and_how_it_ended(
    tmp_path: Path,
) -> None:
    async with replicas(tmp_path) as (first, second):
        thread_id = str(uuid4())
        async with following(second, thread_id, CHANNELS) as stream:
            run_id = await begin(first, thread_id, "slow")
            await first.post(f"/threads/{thread_id}/runs/{run_id}/cancel?wait=1")
            events = await stream.until(ends(1))
        async with lasting(
            second, "GET", f"/threads/{thread_id}/stream", headers={"Last-Event-ID": "-1"}
        ) as thread_stream:
            older = await thread_stream.until(lambda events: events and "status" in (events[-1].data or {}))
    assert statuses(events) == ["running", "interrupted"]
    assert older[-1].data == {"status": "run_done", "run_id": run_id}


@pytest.mark.parametrize("late", [0, 1], ids=["its former host hears it late", "the other one ends it late"])
async def test_run_that_another_host_has_taken_up_is_followed_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: int
) -> None:
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(watch, "BEATS_PER_LEASE", 600)
    async with replicas(tmp_path) as (first, second):
        hearing = Held(monkeypatch, (first, second)[late].host.runs, "heed")
        thread_id = str(uuid4())
        async with following(first, thread_id, CHANNELS) as stream:
            run_id = await begin(first, thread_id, "slow")
            await stream.until(statuses)
            heir = second.host.runs._parts.host_id
            async with first.host.database.engine.begin() as connection:
                change = text("UPDATE runs SET host_id = :heir WHERE run_id = :run_id")
                await connection.execute(change, {"heir": heir, "run_id": run_id})
            if late:
                await until(lambda: first.host.runs.find(run_id) is None)
            else:
                await until(lambda: _is_over(first, run_id))
            hearing.let_go.set()
            events = await stream.until(ends(1))
    assert statuses(events) == ["running", "failed"]
    assert "HostLostError" in events[-1].data["params"]["data"]["error"]


async def _is_over(client: GatewayClient, run_id: str) -> bool:
    record = await client.host.database.stores.runs.get(run_id)
    return record is not None and record.status not in ACTIVE_STATUSES
