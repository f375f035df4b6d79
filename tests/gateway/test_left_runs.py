"""Runs on temporary threads, through a replica that does not have them, in the moment of their end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.crashes import until
from support.gateways import UNKNOWN_ID, answer, said, serving
from support.held import watched
from support.hosts import scripted_config
from support.redis_server import RedisServer

from deerflow.gateway import following
from deerflow.gateway.app import create_app
from deerflow.runs import finish

pytestmark = pytest.mark.redis


async def test_a_run_is_found_between_the_removal_of_its_thread_and_its_end(
    tmp_path: Path, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove, removed, may_end = finish._remove_thread, asyncio.Event(), asyncio.Event()

    async def removing(*arguments: Any) -> None:
        await remove(*arguments)
        removed.set()
        await may_end.wait()

    monkeypatch.setattr(finish, "_remove_thread", removing)
    monkeypatch.setattr(following, "LEFT_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(following, "LEFT_TRIES", 1_000)
    stream: Any = {"backend": "redis", "url": redis_server.url}
    config = scripted_config(tmp_path, database={"backend": "sqlite"}, stream=stream)
    async with serving(create_app(config)) as first, serving(create_app(config)) as second:
        looks = watched(monkeypatch, second.host.runs, "find_left")
        run = (await first.post("/runs", json=said("hello"))).json()
        path = f"/threads/{run['thread_id']}/runs/{run['run_id']}"
        await removed.wait()
        with redis_server.client() as redis:
            await until(lambda: redis.exists(f"deerflow:run:{run['run_id']}"))
        joined = asyncio.create_task(second.get(f"{path}/join"))
        await until(lambda: looks)
        may_end.set()
        assert answer((await joined).json()) == "echo: hello"
        assert looks[0] is None
        unknown = await second.get(f"/threads/{run['thread_id']}/runs/{UNKNOWN_ID}/join")
        assert unknown.status_code == 404
