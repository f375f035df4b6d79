"""A run that is rolled back leaves nothing behind; one that was given up writes nothing any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.crashes import ended, lasting_values, messages_on, until
from support.extensions import Seen, installed, recording
from support.hosts import answer, finished, start
from support.mortal import refusing, released

from deerflow.config import config_from
from deerflow.host import Host, HostOptions, open_host
from deerflow.runs import active
from deerflow.runs.record import RunStatus, ThreadStatus
from deerflow.runs.request import RunRequest

ASKING = {
    "when": "^ask",
    "turns": [
        {"tool_calls": [{"name": "write_file", "args": {"path": "a.txt", "content": "x"}, "id": "call-1"}]},
        {"text": "written: {tool_results}"},
    ],
}
STEPS = {
    "when": "^steps",
    "turns": [
        {"tool_calls": [{"name": "write_file", "args": {"path": "b.txt", "content": "x"}, "id": "call-1"}]},
        {"delay_seconds": 30, "text": "too late"},
    ],
}
REFUSING = {
    "when": "^refuse",
    "turns": [{"tool_calls": [{"name": "refuse", "args": {}, "id": "call-1"}]}, {"text": "went on"}],
}


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def host(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Host]:
    database = {"backend": request.param}
    if request.param == "postgres":
        database["url"] = request.getfixturevalue("postgres_url")
    config = config_from({"database": database}).based_in(tmp_path)
    values = lasting_values(config, [ASKING, STEPS, REFUSING], tools=[{"use": "support.mortal:refuse"}])
    async with open_host(config_from(values).based_in(tmp_path), HostOptions(drain_seconds=0.0)) as opened:
        yield opened


async def status_of(host: Host, thread_id: str) -> ThreadStatus:
    thread = await host.database.stores.threads.get(thread_id)
    assert thread is not None
    return thread.status


async def test_a_run_that_is_rolled_back_after_some_steps_never_was(host: Host) -> None:
    seen = Seen()
    kept = await finished(host, "kept")
    before = await messages_on(host, kept.thread_id)
    with installed(recording(seen)):
        run = await start(host, "steps", thread_id=kept.thread_id)
        await until(lambda: len(seen.model_stores) == 2)
        assert await host.runs.stop(run.run_id, reason="rollback")
    assert run.ending is not None and run.ending.stop_reason == "rollback"
    assert seen.kinds() == ["start lead", "stop lead"]
    assert await messages_on(host, kept.thread_id) == before
    assert await host.database.stores.runs.get(run.run_id) is None
    assert host.runs.find_ended(run.run_id) is None
    assert await status_of(host, kept.thread_id) is ThreadStatus.IDLE
    again = await finished(host, "again", thread_id=kept.thread_id)
    assert [str(message.text) for message in again.values["messages"]] == [
        "kept", "echo: kept", "again", "echo: again",
    ]  # fmt: skip


async def test_a_run_that_waits_for_its_turn_can_be_rolled_back(host: Host) -> None:
    run = await start(host, "steps")
    waiting = await start(host, "hello", thread_id=run.thread_id)
    await host.runs.stop(waiting.run_id, reason="rollback")
    assert await host.database.stores.runs.get(waiting.run_id) is None
    assert await status_of(host, run.thread_id) is ThreadStatus.BUSY
    await host.runs.stop(run.run_id)


async def test_a_run_that_was_deleted_before_it_is_rolled_back_ends_for_its_readers(host: Host) -> None:
    run = await start(host, "steps")
    assert await host.database.stores.threads.delete(run.thread_id)
    await host.runs.stop(run.run_id, reason="rollback")
    events = await run.log.reader(run.log.last_id - 1).next()
    assert events is not None and [event.name for event in events] == ["end"]


async def test_a_run_replaces_another_as_if_that_had_never_been(host: Host) -> None:
    kept = await finished(host, "kept")
    run = await start(host, "steps", thread_id=kept.thread_id)
    await until(lambda: run.values.get("messages"))
    replacing = await finished(host, "hello", thread_id=kept.thread_id, multitask_strategy="rollback")
    assert [str(message.text) for message in replacing.values["messages"]] == [
        "kept", "echo: kept", "hello", "echo: hello",
    ]  # fmt: skip
    assert await host.database.stores.runs.get(run.run_id) is None


async def test_a_question_is_open_again_when_its_answer_is_rolled_back(host: Host) -> None:
    context = {"approve_tools": ["write_file"]}
    asked = await finished(host, "ask", context=context)
    before = await messages_on(host, asked.thread_id)
    command = {"resume": {"decisions": [{"type": "approve"}]}}
    run = await host.runs.start(RunRequest(asked.thread_id, command=command, context=context))
    run.stop("rollback")
    await run.ended.wait()
    assert await messages_on(host, asked.thread_id) == before
    assert await status_of(host, asked.thread_id) is ThreadStatus.INTERRUPTED
    answered = await host.runs.start(RunRequest(asked.thread_id, command=command, context=context))
    await answered.ended.wait()
    assert answer(answered).startswith("written:")


@pytest.mark.parametrize("reason", ["rollback", "cancelled"])
async def test_writes_that_are_under_way_when_a_run_is_stopped_belong_to_it(host: Host, reason: str) -> None:
    fence, begun, let_go = host.checkpointer.fence, 0, asyncio.Event()

    @asynccontextmanager
    async def held(run_id: str | None) -> AsyncIterator[None]:
        nonlocal begun
        assert fence is not None
        async with fence(run_id):
            begun += 1
            await let_go.wait()
            yield

    host.checkpointer.fence = held
    run = await start(host, "hello")
    # The model has answered, and the graph waits for its writes; one of each checkpoint follows the other.
    await until(lambda: begun == 3)
    stopping = asyncio.create_task(host.runs.stop(run.run_id, reason=reason))
    await until(lambda: run.run_id in host.runs._parts.gate._closed)
    let_go.set()
    assert await stopping
    left = await messages_on(host, run.thread_id)
    assert reason == "cancelled" or left == []
    await asyncio.sleep(0.3)
    assert await messages_on(host, run.thread_id) == left
    assert begun == 3


async def test_a_run_that_came_to_its_end_is_not_rolled_back(host: Host) -> None:
    run = await finished(host, "hello")
    assert not await host.runs.stop(run.run_id, reason="rollback")
    record = await ended(host, run.run_id)
    assert record.status is RunStatus.SUCCESS


async def test_a_run_that_was_given_up_writes_nothing_any_more(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active, "STOP_GRACE_SECONDS", 0.05)
    released.clear()
    refusing.clear()
    run = await start(host, "refuse")
    await until(lambda: refusing)
    await host.runs.stop(run.run_id)
    before = await messages_on(host, run.thread_id)
    released.append(True)
    await asyncio.sleep(0.3)
    assert await messages_on(host, run.thread_id) == before
    record = await ended(host, run.run_id)
    assert (record.status, record.stop_reason) == (RunStatus.INTERRUPTED, "cancelled")
    assert answer(await finished(host, "hello", thread_id=run.thread_id)) == "echo: hello"
