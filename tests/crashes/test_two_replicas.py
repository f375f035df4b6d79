"""Two Gateways on PostgreSQL, one of which is killed while its runs are streamed."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client
from support.crashes import lasting_values, until
from support.mortal import process
from support.redis_server import RedisServer
from support.replicas import balancer, replica

from deerflow.config import config_from

RUNS = 50
LEASE_SECONDS = 5.0
KEYLESS: Any = {"api_key": None, "timeout": 60}


def _mark(number: int, *, waits: bool) -> dict[str, Any]:
    args = {"name": f"{{prompt}}-{number}", "waits": waits}
    return {"name": "mark", "args": args, "id": f"call-{number}"}


MARKING = {
    "when": "^run",
    "turns": [
        {"tool_calls": [_mark(1, waits=False)]},
        {"tool_calls": [_mark(2, waits=True)]},
        {"text": "done: {prompt}"},
    ],
}


def configured(postgres_url: str, **sections: Any) -> dict[str, Any]:
    database = config_from({"database": {"backend": "postgres", "url": postgres_url}})
    values = {"runs": {"lease_seconds": LEASE_SECONDS}, "title": {"enabled": False}, **sections}
    return lasting_values(database, [MARKING], tools=[{"use": "support.replicas:mark"}], **values)


async def streamed(sdk: Any, number: int) -> list[Any]:
    """All that a client of LangGraph sees of a run: it comes back by itself where it loses the connection."""
    thread = await sdk.threads.create()
    text = {"messages": [{"role": "user", "content": f"run{number}"}]}
    modes = ["values", "updates"]
    return [
        part
        async for part in sdk.runs.stream(thread["thread_id"], "lead_agent", input=text, stream_mode=modes)
    ]


def ids_of(parts: list[Any]) -> list[int]:
    return [int(part.id) for part in parts if part.event != "gap" and part.id]


def check_went_on(parts: list[Any], number: int) -> None:
    """The client saw the whole run, through two attempts, each event once."""
    names = [part.event for part in parts]
    assert names[0] == "metadata" and names[-1] == "end", names
    assert names.count("end") == 1 and parts[-1].data["status"] == "success", parts[-1]
    assert [part.data["attempt"] for part in parts if part.event == "metadata"] == [1, 2]
    assert names[names.index("metadata", 1) - 1] == "gap"
    last_values = [part.data for part in parts if part.event == "values"][-1]
    assert last_values["messages"][-1]["content"] == f"done: run{number}"
    ids = ids_of(parts)
    assert ids == sorted(set(ids))


@pytest.mark.postgres
@pytest.mark.redis
@pytest.mark.parametrize(
    "shares_events", [True, pytest.param(False, marks=pytest.mark.soak)], ids=["redis", "records"]
)
async def test_fifty_streams_go_on_when_their_replica_is_killed(
    postgres_url: str, redis_server: RedisServer, tmp_path: Path, shares_events: bool
) -> None:
    stream = {"backend": "redis", "url": redis_server.url} if shares_events else {}
    arguments = (configured(postgres_url, stream=stream), str(tmp_path))
    with process(replica, *arguments) as (first, told), process(replica, *arguments) as (_, also_told):
        ports = [await asyncio.to_thread(pipe.recv) for pipe in (told, also_told)]
        async with balancer(ports) as url, get_client(url=url, **KEYLESS) as sdk:
            clients = [asyncio.create_task(streamed(sdk, number)) for number in range(RUNS)]
            async with get_client(url=f"http://127.0.0.1:{ports[1]}", **KEYLESS) as survivor:
                await until(lambda: all_wait(survivor), seconds=120)
            first.kill()
            await asyncio.to_thread(first.join)
            (tmp_path / "gate").touch()
            async with asyncio.timeout(120):
                seen = await asyncio.gather(*clients)
    for number, parts in enumerate(seen):
        check_went_on(parts, number)
    assert Counter((tmp_path / "marks").read_text().split()) == {
        f"run{number}-{step}": 1 for number in range(RUNS) for step in (1, 2)
    }


async def all_wait(sdk: Any) -> bool:
    """Whether each run has called its first tool, kept that, and is about to call the second one."""
    threads = await sdk.threads.search(limit=RUNS)
    states = await asyncio.gather(*(sdk.threads.get_state(thread["thread_id"]) for thread in threads))
    return len(states) == RUNS and all(len(state["values"].get("messages", ())) == 4 for state in states)
