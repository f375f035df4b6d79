"""Every way of stopping a run ends it once, in good order, with nothing left behind."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest
from deerflow_extension_api import TaskLifecycleContributor, TaskOutcome
from support.extensions import Seen, installed, recording
from support.held import Held
from support.hosts import DELEGATE_TWICE, finished, scripted_host, start

from deerflow.errors import ConflictError, UnavailableError
from deerflow.runs.record import RunStatus

_SLOW = {"when": "^(slow|one|two)", "turns": [{"delay_seconds": 30, "text": "never"}]}


async def _until(condition) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


async def test_stopping_a_run_aborts_lead_and_subagents_children_first(tmp_path: Path) -> None:
    seen = Seen()
    with installed(recording(seen)):
        async with scripted_host(tmp_path, [DELEGATE_TWICE, _SLOW]) as host:
            run = await start(host, "delegate")
            await _until(lambda: len(seen.model_stores) == 3)
            await host.runs.stop(run.run_id)
            await host.runs.stop(run.run_id)
            assert run.ending is not None
            assert (run.ending.status, run.ending.stop_reason) == (RunStatus.INTERRUPTED, "cancelled")
            assert set(seen.outcomes.values()) == {TaskOutcome.ABORTED}
            assert seen.kinds()[-3:] == ["stop subagent", "stop subagent", "stop lead"]
            assert host.assembler.capacity.running == 0
            stored = await host.database.stores.runs.get(run.run_id)
            assert stored is not None and stored.status is RunStatus.INTERRUPTED
            assert (await finished(host, "hello", thread_id=run.thread_id)).ending.status == "success"


async def test_a_run_stopped_before_its_turn_never_reaches_the_model(tmp_path: Path) -> None:
    seen = Seen()
    with installed(recording(seen)):
        async with scripted_host(tmp_path, [_SLOW]) as host:
            first = await start(host, "slow")
            await _until(lambda: seen.model_stores)
            second = await start(host, "hello", thread_id=first.thread_id)
            await host.runs.stop(second.run_id)
            assert second.ending is not None and second.ending.status is RunStatus.INTERRUPTED
            assert [info.run_id for info in seen.infos] == [first.run_id]
            await _until(lambda: seen.model_stores)
            await host.runs.stop(first.run_id)
    assert len(seen.model_stores) == 1


async def test_closing_the_host_aborts_what_runs(tmp_path: Path) -> None:
    seen = Seen()
    with installed(recording(seen)):
        before = asyncio.all_tasks()
        async with scripted_host(tmp_path, [_SLOW]) as host:
            run = await start(host, "slow")
            await _until(lambda: seen.model_stores)
        assert run.ending is not None and run.ending.stop_reason == "shutdown"
        assert seen.outcomes == {run.run_id: TaskOutcome.ABORTED}
        assert asyncio.all_tasks() == before
        with pytest.raises(UnavailableError):
            await start(host, "late")


async def test_runs_of_one_thread_take_turns_in_order(tmp_path: Path) -> None:
    async with scripted_host(tmp_path) as host:
        first = await start(host, "a")
        others = [await start(host, text, thread_id=first.thread_id) for text in "bcd"]
        for run in (first, *others):
            await run.ended.wait()
        texts = [message.text for message in others[-1].values["messages"]]
    assert texts == ["a", "echo: a", "b", "echo: b", "c", "echo: c", "d", "echo: d"]


async def test_reject_refuses_and_interrupt_replaces_the_run_under_way(tmp_path: Path) -> None:
    async with scripted_host(tmp_path, [_SLOW]) as host:
        first = await start(host, "slow")
        with pytest.raises(ConflictError, match="reject"):
            await start(host, "hello", thread_id=first.thread_id, multitask_strategy="reject")
        second = await finished(host, "hello", thread_id=first.thread_id, multitask_strategy="interrupt")
        assert first.ending is not None and first.ending.stop_reason == "interrupt"
        assert second.ending is not None and second.ending.status is RunStatus.SUCCESS


async def test_stopping_at_random_moments_leaves_nothing_behind(tmp_path: Path) -> None:
    seen = Seen()
    with installed(recording(seen)):
        async with scripted_host(tmp_path, [DELEGATE_TWICE], subagents={"max_running": 8}) as host:
            before = asyncio.all_tasks()
            runs = [await start(host, "delegate") for _ in range(30)]
            for number, run in enumerate(runs):
                if number % 3 == 0:
                    await asyncio.sleep(0.002)
                    run.stop("cancelled")
            for run in runs:
                await asyncio.wait_for(run.ended.wait(), 20)
            await _until(lambda: not asyncio.all_tasks() - before)
            assert (host.assembler.capacity.running, host.assembler.capacity.queued) == (0, 0)
            assert all(host.runs.find(run.run_id) is None for run in runs)
            for run in runs:
                stored = await host.database.stores.runs.get(run.run_id)
                assert stored is not None and run.ending is not None
                assert stored.status == run.ending.status
    starts = [task for hook, _, task in seen.events if hook == "start"]
    stops = [task for hook, _, task in seen.events if hook == "stop"]
    assert sorted(starts) == sorted(stops)


async def test_a_run_whose_caller_leaves_while_it_is_recorded_never_reaches_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, run_id, thread_id = Seen(), str(uuid4()), str(uuid4())
    with installed(recording(seen)):
        async with scripted_host(tmp_path) as host:
            recorded = Held(monkeypatch, host.database.stores.runs, "create")
            starting = asyncio.create_task(start(host, "hello", run_id=run_id, thread_id=thread_id))
            await recorded.reached.wait()
            starting.cancel()
            await asyncio.sleep(0.01)
            recorded.let_go.set()
            with pytest.raises(asyncio.CancelledError):
                await starting
            await _until(lambda: host.runs.find(run_id) is None)
            stored = await host.database.stores.runs.get(run_id)
            assert stored is not None
            assert (stored.status, stored.stop_reason) == (RunStatus.INTERRUPTED, "disconnected")
            assert seen.events == [] and seen.model_stores == []
            assert (await finished(host, "hello", thread_id=thread_id)).ending.status == "success"


async def test_a_run_that_was_to_replace_another_may_be_given_up_before_it_begins(tmp_path: Path) -> None:
    seen = Seen()
    stubborn = _Stubborn()
    with installed(recording(seen, ("stubborn:install", stubborn))):
        async with scripted_host(tmp_path, [_SLOW]) as host:
            first = await start(host, "slow")
            await _until(lambda: seen.model_stores)
            fields = {"thread_id": first.thread_id, "multitask_strategy": "interrupt"}
            second = await start(host, "hello", **fields)
            await stubborn.stopping.wait()
            await host.runs.stop(second.run_id)
            stubborn.may_stop.set()
            await first.ended.wait()
            stored = await host.database.stores.runs.get(second.run_id)
            assert stored is not None
            assert (stored.status, stored.stop_reason) == (RunStatus.INTERRUPTED, "cancelled")
            assert [info.run_id for info in seen.infos] == [first.run_id]
            assert len(seen.model_stores) == 1
            assert (await finished(host, "hello", thread_id=first.thread_id)).ending.status == "success"


class _Stubborn(TaskLifecycleContributor):
    """Takes its time to stop."""

    def __init__(self) -> None:
        self.stopping = asyncio.Event()
        self.may_stop = asyncio.Event()

    async def on_task_stop(self, *arguments: object) -> None:
        self.stopping.set()
        await self.may_stop.wait()


async def test_a_run_recorded_while_the_host_closes_is_stopped_before_its_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen()
    with installed(recording(seen)):
        async with scripted_host(tmp_path) as host:
            recorded = Held(monkeypatch, host.database.stores.runs, "create")
            starting = asyncio.create_task(start(host, "hello"))
            await recorded.reached.wait()
            host.runs.stop_accepting()
            recorded.let_go.set()
            run = await starting
            await run.ended.wait()
            assert run.ending is not None and run.ending.stop_reason == "shutdown"
    assert seen.events == [] and seen.model_stores == []
