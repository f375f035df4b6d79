"""What a service opens is bound to its loop; only there are hooks and observers called, whoever runs."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from support.databases import postgres_database, postgres_url
from support.doors import open_door
from support.pooled import Pooled
from support.stepping import stepping_config

from deerflow.agents.lead import Assembler
from deerflow.client import DeerFlowClient
from deerflow.config import AppConfig, RequestOptions
from deerflow.extensions import get_loaded_extensions, reset_loaded_extensions

__all__ = ["postgres_database", "postgres_url"]
pytestmark = pytest.mark.postgres

_LEAD = ["start lead", "stop lead", "title"]
_BOTH = ["start subagent", "stop subagent", "summarization", "summarization", "compaction", "compaction"]


@pytest.fixture(autouse=True)
def _no_set_is_left() -> Iterator[None]:
    yield
    reset_loaded_extensions()


def _as_client(config: AppConfig) -> None:
    with DeerFlowClient(config) as client:
        client.chat(uuid4().hex)


def _as_async_client(config: AppConfig) -> None:
    async def chat() -> None:
        async with DeerFlowClient(config) as client:
            await client.achat(uuid4().hex)

    asyncio.run(chat())


def _as_graph_in_a_thread(config: AppConfig) -> None:
    graph = Assembler(config).lead_now(get_loaded_extensions(), RequestOptions()).graph
    graph.invoke({"messages": [("user", uuid4().hex)]})


def _as_graph_on_a_loop(config: AppConfig) -> None:
    graph = Assembler(config).lead_now(get_loaded_extensions(), RequestOptions()).graph
    asyncio.run(graph.ainvoke({"messages": [("user", uuid4().hex)]}))


_GUESTS: dict[str, tuple[Callable[[AppConfig], None], list[str]]] = {
    "another client": (_as_client, _LEAD + _BOTH),
    "another client inside a loop": (_as_async_client, _LEAD + _BOTH),
    "a plain graph in a thread": (_as_graph_in_a_thread, _BOTH),
    "a plain graph on a loop": (_as_graph_on_a_loop, _BOTH),
}


@pytest.mark.parametrize("owner", ["gateway", "client"])
@pytest.mark.parametrize(("guest", "told"), _GUESTS.values(), ids=_GUESTS)
def test_a_pool_is_touched_only_on_the_loop_that_opened_it(
    tmp_path: Path, postgres_url: str, owner: str, guest: Callable[[AppConfig], None], told: list[str]
) -> None:
    pooled = Pooled(postgres_url)
    plugins = [{"use": "support.pooled:install", "config": {"pooled": pooled}}]
    config = stepping_config(tmp_path, plugins=plugins, shutdown={"drain_seconds": 0.01})
    expected = Counter(_LEAD + _BOTH + told)
    with open_door(owner, config) as door:
        assert door.run(uuid4().hex).status == "success"
        guest(config)
        _until(lambda: len(pooled.touches) >= expected.total())
    assert Counter(what for what, _ in pooled.touches) == expected + Counter(["stop"])
    assert {loop for _, loop in pooled.touches} == {pooled.loop}
    assert pooled.failures == []
    with psycopg.connect(postgres_url) as connection:
        rows = connection.execute("SELECT what FROM touches").fetchall()
    assert Counter(what for (what,) in rows) == expected + Counter(["stop"])


def _until(condition: Any) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)
