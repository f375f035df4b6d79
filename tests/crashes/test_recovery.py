"""The runs of a host that died go on from their last checkpoint, or end and say why."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from deerflow_extension_api import TaskOutcome
from sqlalchemy import select, update
from support.crashes import (
    ended,
    event_types,
    lasting,
    lasting_values,
    leave_under_way,
    messages_on,
    settled,
    until,
)
from support.databases import connected
from support.extensions import Seen, installed, recording
from support.held import Held, watched
from support.hosts import finished, start
from support.mortal import host, host_that_dies_at_task_start, process, said

from deerflow.config import AppConfig
from deerflow.host import Host, HostOptions, open_host
from deerflow.persistence.tables import run_hosts, runs
from deerflow.runs import finish
from deerflow.runs.hosts import watch
from deerflow.runs.hosts.recovery import MAX_ATTEMPTS
from deerflow.runs.record import RunStatus, ThreadStatus, utc_now
from deerflow.runs.request import RunRequest


def dies_with(tool_name: str, marker: Path) -> dict[str, Any]:
    """A rule: the model calls a tool that kills the process, and then says what the tool gave."""
    call = {"name": tool_name, "args": {"marker": str(marker)}, "id": "call-1"}
    return {"when": "^die", "turns": [{"tool_calls": [call]}, {"text": "done: {tool_results}"}]}


SYNC = {"durability": "sync"}
"""With this a test knows which checkpoints are there."""

TOOLS = [{"use": "support.mortal:fatal"}, {"use": "support.mortal:stubborn"}]


@asynccontextmanager
async def reopened(values: dict[str, Any], home: Path) -> AsyncIterator[tuple[Host, Seen]]:
    """A host that starts after another one died, and what extensions see in it."""
    seen = Seen()
    with installed(recording(seen)):
        async with open_host(lasting(values, home), HostOptions(drain_seconds=0.0)) as opened:
            yield opened, seen


async def die(target: Any, values: dict[str, Any], home: Path, requests: list[dict[str, Any]]) -> list[str]:
    """Start runs in a process that dies of one of them; the ids of those that it told of."""
    with process(target, values, str(home), requests) as (child, told):
        await asyncio.to_thread(child.join, 60)
        assert child.exitcode == -9
        ids = []
        while told.poll():
            try:
                ids.append(told.recv())
            except EOFError:
                break
    return ids


async def status_of(opened: Host, thread_id: str) -> ThreadStatus:
    thread = await opened.database.stores.threads.get(thread_id)
    assert thread is not None
    return thread.status


async def test_a_killed_run_goes_on_from_its_last_checkpoint(
    lasting_config: AppConfig, tmp_path: Path
) -> None:
    values = lasting_values(lasting_config, [dies_with("fatal", tmp_path / "marker")], tools=TOOLS)
    run_id, thread_id = str(uuid4()), str(uuid4())
    before = {"thread_id": thread_id, "input": said("hello")}
    killed = {"thread_id": thread_id, "run_id": run_id, "input": said("die"), **SYNC}
    await die(host, values, tmp_path, [before, killed])
    async with reopened(values, tmp_path) as (opened, seen):
        await until(lambda: opened.runs.find(run_id))
        run = opened.runs.find(run_id)
        assert run is not None
        events = [event async for event in run.log.subscribe(0)]
        record = await ended(opened, run_id)
        assert (record.status, record.attempt, record.stop_reason) == (RunStatus.SUCCESS, 2, None)
        assert (events[0].name, events[0].data) == ("metadata", {"run_id": run_id, "attempt": 2})
        assert (events[-1].name, events[-1].data["status"]) == ("end", "success")
        assert await messages_on(opened, thread_id) == [
            ("human", "hello"),
            ("ai", "echo: hello"),
            ("human", "die"),
            ("ai", ""),
            ("tool", "survived"),
            ("ai", "done: survived"),
        ]
        assert await event_types(opened, record) == [
            "message.human", "message.ai", "message.tool", "message.ai", "run.ended",
        ]  # fmt: skip
        assert await status_of(opened, thread_id) is ThreadStatus.IDLE
    (info,) = seen.infos
    assert (info.run_id, info.resumed) == (run_id, True)
    assert seen.kinds() == ["start lead", "stop lead"]
    assert seen.outcomes == {run_id: TaskOutcome.COMPLETED}


async def test_a_run_that_left_no_checkpoint_is_lost(lasting_config: AppConfig, tmp_path: Path) -> None:
    values = lasting_values(lasting_config)
    run_id, thread_id = str(uuid4()), str(uuid4())
    request = {"thread_id": thread_id, "run_id": run_id, "input": said("hello")}
    await die(host_that_dies_at_task_start, values, tmp_path, [request])
    async with reopened(values, tmp_path) as (opened, seen):
        record = await ended(opened, run_id)
        assert (record.status, record.stop_reason) == (RunStatus.ERROR, "host_lost")
        assert "no checkpoint" in (record.error or "")
        assert await event_types(opened, record) == ["run.ended"]
        assert await status_of(opened, thread_id) is ThreadStatus.ERROR
        assert seen.events == []
        again = await finished(opened, "again", thread_id=thread_id)
        assert again.ending is not None and again.ending.status is RunStatus.SUCCESS
    async with reopened(values, tmp_path) as (opened, seen):
        await settled(opened)
        assert await opened.database.stores.runs.get(run_id) == record
        assert seen.events == []


async def test_runs_that_waited_for_their_turn_follow_in_order(
    lasting_config: AppConfig, tmp_path: Path
) -> None:
    values = lasting_values(lasting_config, [dies_with("fatal", tmp_path / "marker")], tools=TOOLS)
    thread_id = str(uuid4())
    rule = {"when": "^slow", "turns": [{"delay_seconds": 30, "text": "slow"}]}
    slow = lasting_values(lasting_config, [rule, dies_with("fatal", tmp_path / "marker")], tools=TOOLS)
    texts = ["slow", "a", "b"]
    requests = [{"thread_id": thread_id, "input": said(text)} for text in texts]
    await die(host, slow, tmp_path, [*requests, {"thread_id": str(uuid4()), "input": said("die")}])
    async with reopened(values, tmp_path) as (opened, _):
        await settled(opened)
        said_on = [text for kind, text in await messages_on(opened, thread_id) if kind == "human"]
        assert said_on in (texts, texts[1:])  # the first one may have left nothing
        assert await status_of(opened, thread_id) is ThreadStatus.IDLE


async def test_a_run_that_kills_its_host_each_time_is_given_up(
    lasting_config: AppConfig, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    values = lasting_values(lasting_config, [dies_with("stubborn", marker)], tools=TOOLS)
    run_id = str(uuid4())
    request = {"thread_id": str(uuid4()), "run_id": run_id, "input": said("die"), **SYNC}
    await die(host, values, tmp_path, [request])
    for _ in range(MAX_ATTEMPTS - 1):
        await die(host, values, tmp_path, [])
    async with reopened(values, tmp_path) as (opened, seen):
        record = await ended(opened, run_id)
        assert (record.status, record.stop_reason) == (RunStatus.ERROR, "host_lost")
        assert f"begun {MAX_ATTEMPTS} times" in (record.error or "")
        assert seen.events == []
    assert marker.read_text() == "x" * MAX_ATTEMPTS


async def test_a_delayed_run_keeps_its_time(lasting_config: AppConfig, tmp_path: Path) -> None:
    values = lasting_values(lasting_config, [dies_with("fatal", tmp_path / "marker")], tools=TOOLS)
    later, soon = [str(uuid4()) for _ in range(2)]
    delayed = {"input": said("late"), "after_seconds": 3600}
    requests = [{"thread_id": str(uuid4()), "run_id": run_id, **delayed} for run_id in (later, soon)]
    await die(host, values, tmp_path, [*requests, {"thread_id": str(uuid4()), "input": said("die")}])
    reopened_at, hour = utc_now(), timedelta(hours=1)
    asked_for_at = reopened_at - hour + timedelta(seconds=2)
    with connected(lasting(values, tmp_path)) as engine, engine.begin() as connection:
        connection.execute(update(runs).where(runs.c.run_id == soon).values(created_at=asked_for_at))
    async with reopened(values, tmp_path) as (opened, seen):
        await until(lambda: opened.runs.find(later))
        run = opened.runs.find(later)
        assert run is not None
        due_at = run.record.created_at + hour
        left = timedelta(seconds=run.request.after_seconds)
        assert due_at - utc_now() <= left <= due_at - reopened_at < hour
        record = await ended(opened, soon)
        assert utc_now() >= asked_for_at + hour
        assert (record.status, record.attempt) == (RunStatus.SUCCESS, 1)
        assert [(info.run_id, info.resumed) for info in seen.infos if info.run_id in (soon, later)] == [
            (soon, False)
        ]


async def test_a_run_whose_model_is_gone_is_lost(lasting_config: AppConfig, tmp_path: Path) -> None:
    values = lasting_values(lasting_config, [dies_with("fatal", tmp_path / "marker")], tools=TOOLS)
    values["models"].append({"name": "second", "use": "deerflow.models:ScriptedChatModel"})
    run_id = str(uuid4())
    context = {"model_name": "scripted"}
    request = {"thread_id": str(uuid4()), "run_id": run_id, "input": said("die"), "context": context, **SYNC}
    await die(host, values, tmp_path, [request])
    values["models"].pop(0)
    async with reopened(values, tmp_path) as (opened, _):
        record = await ended(opened, run_id)
        assert (record.status, record.stop_reason) == (RunStatus.ERROR, "host_lost")
        assert "model_name" in (record.error or "")


async def test_a_temporary_run_leaves_nothing(lasting_config: AppConfig, tmp_path: Path) -> None:
    values = lasting_values(lasting_config, [dies_with("fatal", tmp_path / "marker")], tools=TOOLS)
    thread_id = str(uuid4())
    request = {"thread_id": thread_id, "input": said("die"), "temporary": True, "durability": "exit"}
    await die(host, values, tmp_path, [request])
    async with reopened(values, tmp_path) as (opened, _):

        async def gone() -> bool:
            return await opened.database.stores.threads.get(thread_id) is None

        await until(gone)


@pytest.mark.parametrize("durability", ["sync", "async"])
async def test_a_run_whose_end_was_not_written_ends_as_it_had(
    lasting_config: AppConfig, tmp_path: Path, durability: Any
) -> None:
    values = lasting_values(lasting_config)
    async with reopened(values, tmp_path) as (opened, _):
        run = await finished(opened, "hello", durability=durability)
        await leave_under_way(opened, run.run_id, attempt=1)
        before = await messages_on(opened, run.thread_id)
    async with reopened(values, tmp_path) as (opened, seen):
        record = await ended(opened, run.run_id)
        assert (record.status, record.attempt) == (RunStatus.SUCCESS, 2)
        assert await messages_on(opened, run.thread_id) == before
        types = await event_types(opened, record)
        assert types == ["message.human", "message.ai", "run.ended", "run.ended"]
    assert seen.model_stores == []


ASKING = {
    "when": "^ask",
    "turns": [
        {"tool_calls": [{"name": "write_file", "args": {"path": "a.txt", "content": "x"}, "id": "call-1"}]},
        {"text": "written: {tool_results}"},
    ],
}


@pytest.mark.parametrize(
    "fields",
    [
        {"interrupt_before": ["tools"]},
        {"interrupt_before": "*"},
        {"interrupt_after": ["model"]},
        {"interrupt_after": "*"},
        {"context": {"approve_tools": ["write_file"]}},
    ],
    ids=str,
)
async def test_what_waits_for_a_person_goes_on_waiting(
    lasting_config: AppConfig, tmp_path: Path, fields: dict[str, Any]
) -> None:
    values = lasting_values(lasting_config, [ASKING])
    async with reopened(values, tmp_path) as (opened, _):
        run = await finished(opened, "ask", **fields)
        assert run.ending is not None and run.ending.status is RunStatus.INTERRUPTED
        await leave_under_way(opened, run.run_id, attempt=1)
        before = await messages_on(opened, run.thread_id)
    async with reopened(values, tmp_path) as (opened, seen):
        record = await ended(opened, run.run_id)
        assert (record.status, record.stop_reason) == (RunStatus.INTERRUPTED, None)
        assert await messages_on(opened, run.thread_id) == before
        assert await status_of(opened, run.thread_id) is ThreadStatus.INTERRUPTED
    assert seen.tool_names == []


async def test_an_answer_that_was_given_is_given_again(lasting_config: AppConfig, tmp_path: Path) -> None:
    rule = {
        "when": "^ask",
        "turns": [
            {"tool_calls": [{"name": "fatal", "args": {"marker": str(tmp_path / "marker")}, "id": "call-1"}]},
            {"text": "done: {tool_results}"},
        ],
    }
    values = lasting_values(lasting_config, [rule], tools=TOOLS)
    context = {"approve_tools": ["fatal"]}
    async with reopened(values, tmp_path) as (opened, _):
        asked = await finished(opened, "ask", context=context)
        assert asked.ending is not None and asked.ending.interrupts
    answer = {"resume": {"decisions": [{"type": "approve"}]}}
    run_id = str(uuid4())
    request = {"thread_id": asked.thread_id, "run_id": run_id, "command": answer, "context": context, **SYNC}
    await die(host, values, tmp_path, [request])
    async with reopened(values, tmp_path) as (opened, _):
        record = await ended(opened, run_id)
        assert (record.status, record.attempt) == (RunStatus.SUCCESS, 2)
        assert (await messages_on(opened, asked.thread_id))[-1] == ("ai", "done: survived")


@pytest.mark.parametrize("durability", ["async", "exit"])
async def test_an_answer_whose_run_left_no_checkpoint_is_repeated_where_nothing_is_done_twice(
    lasting_config: AppConfig, tmp_path: Path, durability: Any
) -> None:
    values = lasting_values(lasting_config, [ASKING])
    context = {"approve_tools": ["write_file"]}
    answer = {"resume": {"decisions": [{"type": "approve"}]}}
    async with reopened(values, tmp_path) as (opened, _):
        asked = await finished(opened, "ask", context=context)
        request = RunRequest(asked.thread_id, command=answer, context=context, durability=durability)
        run = await opened.runs.start(request)
        await opened.runs.stop(run.run_id, wait=True)
        await leave_under_way(opened, run.run_id, attempt=1)
    async with reopened(values, tmp_path) as (opened, _):
        record = await ended(opened, run.run_id)
        if durability == "async":
            assert record.status is RunStatus.SUCCESS
            assert (await messages_on(opened, asked.thread_id))[-1][1].startswith("written:")
        else:
            assert (record.status, record.stop_reason) == (RunStatus.ERROR, "host_lost")


@pytest.mark.parametrize("reason", ["cancelled", "interrupt", "rollback"])
async def test_a_run_that_was_to_stop_does_not_go_on(
    lasting_config: AppConfig, tmp_path: Path, reason: str
) -> None:
    values = lasting_values(lasting_config)
    async with reopened(values, tmp_path) as (opened, _):
        kept = await finished(opened, "kept")
        run = await finished(opened, "hello", thread_id=kept.thread_id)
        await leave_under_way(opened, run.run_id, attempt=1, stop_requested=reason)
    async with reopened(values, tmp_path) as (opened, seen):
        await settled(opened)
        record = await opened.database.stores.runs.get(run.run_id)
        messages = await messages_on(opened, run.thread_id)
        if reason == "rollback":
            assert record is None
            assert messages == [("human", "kept"), ("ai", "echo: kept")]
            assert await status_of(opened, run.thread_id) is ThreadStatus.IDLE
        else:
            assert record is not None
            assert (record.status, record.stop_reason) == (RunStatus.INTERRUPTED, reason)
            assert len(messages) == 4
    assert seen.events == []


async def lease_of(opened: Host) -> Any:
    """Until when the host counts as alive; None on SQLite, where a lock says it."""
    statement = select(run_hosts.c.lease_until).where(run_hosts.c.host_id == opened.runs._parts.host_id)
    return await opened.database.transactions.read(
        lambda connection: connection.execute(statement).scalar_one()
    )


async def test_a_live_hosts_runs_are_left_alone(
    lasting_config: AppConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "BEATS_PER_LEASE", 600)  # ten in a second, of leases that no pause outlasts
    monkeypatch.setattr(finish, "STEP_SECONDS", 60.0)
    ending = Held(monkeypatch, finish, "save_ending")
    values = lasting_values(lasting_config, runs={"lease_seconds": 60.0})
    async with reopened(values, tmp_path) as (first, _):
        run = await start(first, "slow")
        await ending.reached.wait()
        async with reopened(values, tmp_path) as (second, seen):
            looks = watched(monkeypatch, second.database.stores.hosts, "inherit")
            before = await lease_of(first)

            async def is_renewed() -> bool:
                return before is None or await lease_of(first) > before

            await until(is_renewed)
            await until(lambda: len(looks) >= 3)
            ending.let_go.set()
            await run.ended.wait()
            assert second.runs.find(run.run_id) is None
        record = await ended(first, run.run_id)
        assert (record.status, record.attempt) == (RunStatus.SUCCESS, 1)
    assert seen.events == []


async def test_a_host_that_left_in_good_order_leaves_nothing_to_be_taken_up(
    lasting_config: AppConfig, tmp_path: Path
) -> None:
    values = lasting_values(
        lasting_config, [{"when": "^slow", "turns": [{"delay_seconds": 30, "text": "slow"}]}]
    )
    async with reopened(values, tmp_path) as (opened, _):
        run = await start(opened, "slow")
        waiting = await start(opened, "hello", thread_id=run.thread_id)
    async with reopened(values, tmp_path) as (opened, seen):
        for stopped in (run, waiting):
            record = await ended(opened, stopped.run_id)
            assert (record.status, record.stop_reason) == (RunStatus.INTERRUPTED, "shutdown")
    assert seen.events == []
