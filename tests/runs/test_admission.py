"""How runs are admitted: recorded as begun where their thread is free, else queued in the order they came."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import HumanMessage
from support.hosts import answer, finished, scripted_host, start

from deerflow.errors import ConflictError, NotFoundError
from deerflow.host import Host
from deerflow.runs.record import RunStatus
from deerflow.runs.request import RunRequest
from deerflow.runs.resuming import with_options_of_asker

SLOW = {"when": "slow", "turns": [{"delay_seconds": 60.0, "text": "late"}]}


class HeldCreation:
    """Lets runs be recorded only when it is opened."""

    def __init__(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.open = asyncio.Event(), asyncio.Event()
        self._create: Callable[..., Awaitable[Any]] = host.database.stores.runs.create
        monkeypatch.setattr(host.database.stores.runs, "create", self._wait)

    async def _wait(self, *arguments: Any, **named: Any) -> Any:
        self.reached.set()
        await self.open.wait()
        return await self._create(*arguments, **named)


async def test_a_run_on_a_free_thread_is_recorded_as_begun(tmp_path: Path) -> None:
    async with scripted_host(tmp_path, [SLOW]) as host:
        thread_id = str(uuid4())
        first = await start(host, "slow", thread_id=thread_id)
        second = await start(host, "hello", thread_id=thread_id)
        assert [run.record.status for run in (first, second)] == ["running", "pending"]
        await host.runs.stop(first.run_id)
        await asyncio.wait_for(second.ended.wait(), 20)
        assert second.values["messages"][-1].text == "echo: hello"
        ends = [await host.database.stores.runs.get(run.run_id) for run in (first, second)]
        assert [(end.status, end.attempt) for end in ends if end] == [("interrupted", 1), ("success", 1)]


async def test_a_delayed_run_is_pending_and_holds_nobody_up(tmp_path: Path) -> None:
    async with scripted_host(tmp_path) as host:
        thread_id = str(uuid4())
        delayed = await start(host, "later", thread_id=thread_id, after_seconds=3600.0)
        assert delayed.record.status is RunStatus.PENDING
        assert answer(await finished(host, "hello", thread_id=thread_id)) == "echo: hello"
        await host.runs.stop(delayed.run_id)


async def test_a_refused_run_leaves_its_thread_free(tmp_path: Path) -> None:
    async with scripted_host(tmp_path) as host:
        thread_id = str(uuid4())
        with pytest.raises(NotFoundError):
            await start(host, "hello", thread_id=thread_id, if_not_exists="reject")
        run = await finished(host, "hello", thread_id=thread_id)
        assert run.record.status is RunStatus.RUNNING


async def test_a_run_that_is_recorded_while_its_host_closes_is_ended_before_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted_host(tmp_path, [SLOW]) as host:
        creation = HeldCreation(host, monkeypatch)
        starting = asyncio.create_task(start(host, "slow"))
        await creation.reached.wait()
        draining = asyncio.create_task(host.runs.drain(0.0))
        await asyncio.sleep(0)  # let it begin
        creation.open.set()
        await asyncio.wait_for(draining, 20)
        assert starting.done()
        record = await host.database.stores.runs.get((await starting).run_id)
        assert record is not None
        assert (record.status, record.stop_reason) == (RunStatus.INTERRUPTED, "shutdown")


async def test_a_run_that_is_recorded_while_others_may_still_finish_is_stopped_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted_host(tmp_path, [SLOW]) as host:
        creation = HeldCreation(host, monkeypatch)
        starting = asyncio.create_task(start(host, "slow"))
        await creation.reached.wait()
        host.runs.stop_accepting()
        creation.open.set()
        assert (await starting).stop_reason == "shutdown"


async def test_a_thread_is_nobody_elses_while_a_run_is_admitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted_host(tmp_path) as host:
        thread_id = str(uuid4())
        creation = HeldCreation(host, monkeypatch)
        starting = asyncio.create_task(start(host, "hello", thread_id=thread_id))
        await creation.reached.wait()
        with pytest.raises(ConflictError, match="under way"):
            async with host.runs.exclusive(thread_id):
                pass
        creation.open.set()
        await asyncio.wait_for((await starting).ended.wait(), 20)
        async with host.runs.exclusive(thread_id):
            pass


async def test_a_run_that_is_admitted_while_its_thread_is_removed_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted_host(tmp_path, [SLOW]) as host:
        thread_id = str(uuid4())
        creation = HeldCreation(host, monkeypatch)
        starting = asyncio.create_task(start(host, "slow", thread_id=thread_id))
        await creation.reached.wait()
        removing = asyncio.create_task(host.runs.remove(thread_id))
        await asyncio.sleep(0)  # let it queue up
        creation.open.set()
        assert await asyncio.wait_for(removing, 20)
        assert (await starting).stop_reason == "deleted"
        assert await host.database.stores.threads.get(thread_id) is None
        assert answer(await finished(host, "hello", thread_id=thread_id)) == "echo: hello"


async def test_a_run_that_goes_with_its_thread_before_it_begins_was_deleted_and_has_not_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted_host(tmp_path) as host:
        thread_id = (await finished(host, "hello")).thread_id
        reached, go_on = asyncio.Event(), asyncio.Event()
        delete = host.database.stores.threads.delete

        async def held(removed: str) -> bool:
            reached.set()
            await go_on.wait()
            return await delete(removed)

        monkeypatch.setattr(host.database.stores.threads, "delete", held)
        removing = asyncio.create_task(host.runs.remove(thread_id))
        await reached.wait()
        late = await start(host, "hello", thread_id=thread_id)
        go_on.set()
        assert await removing
        await asyncio.wait_for(late.ended.wait(), 20)
        assert late.ending is not None
        assert (late.ending.status, late.ending.stop_reason) == (RunStatus.INTERRUPTED, "deleted")
        assert "failed" not in caplog.text


async def test_runs_begin_in_the_order_in_which_they_came_however_their_records_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted_host(tmp_path) as host:
        thread_id = str(uuid4())
        creation = HeldCreation(host, monkeypatch)
        first = asyncio.create_task(start(host, "first", thread_id=thread_id))
        await creation.reached.wait()
        monkeypatch.undo()
        second = await start(host, "second", thread_id=thread_id)
        creation.open.set()
        await asyncio.wait_for(second.ended.wait(), 20)
        said = [message.text for message in second.values["messages"] if isinstance(message, HumanMessage)]
        assert said == ["first", "second"]
        assert [run.record.status for run in (await first, second)] == ["pending", "pending"]


async def test_a_run_on_a_thread_of_any_owner_is_its_owners_in_all_that_it_does(tmp_path: Path) -> None:
    async with scripted_host(tmp_path) as host:
        thread_id = (await finished(host, "hello", user_id="ada")).thread_id
        said: dict[str, Any] = {"messages": [HumanMessage("hello")]}
        asked = RunRequest(thread_id, user_id="root", input=said)
        with pytest.raises(NotFoundError):
            await host.runs.start(asked)
        run = await host.runs.start(asked, of_any_owner=True)
        await asyncio.wait_for(run.ended.wait(), 20)
        assert run.scope is not None
        assert (run.user_id, run.record.user_id, run.scope.user_id) == ("ada", "ada", "ada")


async def test_an_answer_takes_the_options_of_no_strangers_run(tmp_path: Path) -> None:
    async with scripted_host(tmp_path) as host:
        asked = await finished(host, "hello", user_id="ada", context={"thinking_enabled": False})
        runs = host.database.stores.runs
        taken = {}
        for user, of_any_owner in (("ada", False), ("eve", False), ("root", True)):
            request = RunRequest(asked.thread_id, user_id=user, command={"resume": "yes"})
            found = await with_options_of_asker(request, runs, of_any_owner=of_any_owner)
            taken[user] = found.context
        assert taken == {"ada": {"thinking_enabled": False}, "eve": {}, "root": {"thinking_enabled": False}}
