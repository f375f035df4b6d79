"""Who stops whom: runs their Jobs, applications the calls that are under way; on one loop and across two."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.runnables.config import var_child_runnable_config
from support.axonx_app import step_app
from support.bridging import Bridge, Caller, bridge, open_bridge, until

from axonx import BaseStep
from axonx.components.job import ProgressEvent
from deerflow.axonx_bridge.crossing import WorkLostError
from deerflow.axonx_bridge.running import BridgedApplication
from deerflow.loop_thread import LoopThread

CALLS = 1000
TURNS = 8  # of the loop, over which cancellations are spread


class Holding:
    """A Step that tells of itself, waits, and notes how it ends."""

    def __init__(self) -> None:
        self.entered = 0
        self.left = 0
        self.cleaned_up = 0
        self.loops: set[asyncio.AbstractEventLoop] = set()
        self.release = threading.Event()

    async def __call__(self, step: BaseStep) -> None:
        self.entered += 1
        self.loops.add(asyncio.get_running_loop())
        try:
            await step.emit(ProgressEvent(name="held", percentage=0))
            while not self.release.is_set():
                await asyncio.sleep(0.002)
            self.left += 1
        finally:
            await asyncio.sleep(0.001)
            self.cleaned_up += 1
        step.response.answer = "released"


@pytest.fixture(params=["on its loop", "from another loop"])
def elsewhere(request: pytest.FixtureRequest) -> Any:
    """Where the caller runs: here, with the application, or on a loop of its own."""
    if request.param == "on its loop":
        yield None
        return
    thread = LoopThread("callers")
    yield thread
    thread.close()


def calling(elsewhere: LoopThread | None, work: Callable[[], Any]) -> asyncio.Future[Any]:
    if elsewhere is None:
        return asyncio.ensure_future(work())
    return asyncio.wrap_future(elsewhere.submit(work()))


async def test_a_stopped_run_stops_its_job_and_waits_for_its_cleanup(
    tmp_path: Path, elsewhere: LoopThread | None
) -> None:
    holding, caller = Holding(), Caller()
    async with open_bridge(step_app(tmp_path, holding)) as opened:
        seen: list[int] = []

        async def call() -> None:
            try:
                await opened.call("job", {}, caller)
            finally:
                seen.append(holding.cleaned_up)

        under_way = calling(elsewhere, call)
        await until(lambda: caller.events)
        under_way.cancel()
        await until(lambda: seen)
        assert seen == [1]
        assert (holding.left, opened.is_idle) == (0, True)
        assert holding.loops == {asyncio.get_running_loop()}


async def test_a_closing_application_ends_its_calls_with_errors(
    tmp_path: Path, elsewhere: LoopThread | None
) -> None:
    holding, caller = Holding(), Caller()
    opened = bridge(step_app(tmp_path, holding))
    await opened.bridged.start()
    under_way = calling(elsewhere, lambda: opened.call("job", {}, caller))
    await until(lambda: caller.events)
    await opened.bridged.stop()
    message = await under_way
    assert message.status == "error"
    assert message.content == "Job 'job' failed: Application closed while job 'job' was running"
    assert (holding.cleaned_up, opened.is_idle) == (1, True)


async def test_calls_outside_of_the_applications_life_are_errors(tmp_path: Path) -> None:
    opened = bridge(step_app(tmp_path, Holding()))

    async def refused() -> bool:
        message = await opened.call("job")
        return message.status == "error" and "the AxonX application 'AxonX' is not running" in str(
            message.content
        )

    assert await refused()
    await opened.bridged.start()
    await opened.bridged.stop()
    assert await refused()


async def test_an_application_that_closes_itself_leaves_errors_not_hanging_calls(tmp_path: Path) -> None:
    async def closing(self: BaseStep) -> None:
        await opened.application.close()

    opened = bridge(step_app(tmp_path, closing))
    await opened.bridged.start()
    await asyncio.wait_for(opened.call("job"), 10)
    await until(lambda: not opened.application.is_started)
    message = await opened.call("job")
    assert message.content == "Job 'job' failed: Application is not running"
    await opened.bridged.stop()


async def test_it_serves_one_life_after_another_each_on_its_own_loop(tmp_path: Path) -> None:
    holding = Holding()
    holding.release.set()
    opened = bridge(step_app(tmp_path, holding))

    async def live() -> str:
        await opened.bridged.start()
        message = await opened.call("job")
        await opened.bridged.stop()
        return str(message.content)

    for _ in range(2):
        thread = LoopThread("one life")
        assert await asyncio.wrap_future(thread.submit(live())) == "released"
        thread.close()
    assert len(holding.loops) == 2


async def test_a_blocking_call_from_a_thread_is_served(tmp_path: Path) -> None:
    holding = Holding()
    holding.release.set()
    async with open_bridge(step_app(tmp_path, holding)) as opened:
        message = await asyncio.to_thread(opened.call_blocking, "job", {}, Caller())
    assert message.content == "released"


async def test_a_blocking_call_on_the_applications_own_loop_is_refused(tmp_path: Path) -> None:
    async with open_bridge(step_app(tmp_path, Holding())) as opened:
        message = opened.call_blocking("job")
    assert message.status == "error" and "await the tool instead" in str(message.content)


async def test_work_that_a_lost_loop_held_is_refused(tmp_path: Path) -> None:
    bridged = BridgedApplication(step_app(tmp_path, Holding()))
    thread = LoopThread("lost")
    await asyncio.wrap_future(thread.submit(bridged.start()))
    await asyncio.wrap_future(thread.submit(bridged.application.close()))
    thread.close()

    async def nothing() -> None:
        return None

    with pytest.raises(WorkLostError, match="has ended"):
        await bridged.run(nothing)
    assert not bridged.pending
    await bridged.stop()


async def test_models_inside_of_a_job_do_not_pass_for_the_calling_agents(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def body(self: BaseStep) -> None:
        seen.append(var_child_runnable_config.get())

    async with open_bridge(step_app(tmp_path, body)) as opened:
        await opened.call("job", {}, Caller())
    assert seen == [None]


async def test_a_thousand_calls_lose_no_event_and_leak_no_job(
    tmp_path: Path, elsewhere: LoopThread | None
) -> None:
    """A third is cancelled: half of it in the middle of its Step, half at whatever point it has come to."""
    ended = {"whole": 0, "stopped": 0}

    async def working(self: BaseStep) -> None:
        try:
            for percentage in (0, 50, 100):
                await self.emit(ProgressEvent(name="work", percentage=percentage))
                await asyncio.sleep(60 if _is_held(self.context["number"]) else 0)
            ended["whole"] += 1
        except asyncio.CancelledError:
            ended["stopped"] += 1
            raise
        self.response.answer = self.context["number"]

    async with open_bridge(step_app(tmp_path, working)) as opened:
        tasks_before = asyncio.all_tasks()
        outcomes: list[tuple[int, Caller, ToolMessage | None]] = []
        for first in range(0, CALLS, 60):
            numbers = range(first, min(first + 60, CALLS))
            outcomes += await calling(elsewhere, partial(_batch, opened, numbers))
        assert opened.is_idle
        await until(lambda: asyncio.all_tasks() == tasks_before)
    held = [number for number, _, _ in outcomes if _is_held(number)]
    whole = [(number, caller, message) for number, caller, message in outcomes if message is not None]
    assert not {number for number, _, _ in whole} & set(held)
    assert len(whole) >= CALLS * 2 // 3
    for number, caller, message in whole:
        assert message.content == str(number)
        assert [event["percentage"] for event in caller.events] == [0, 50, 100]
    # Every Step that began has come to one of its ends.
    assert ended["stopped"] >= len(held) == 167
    assert len(whole) <= ended["whole"] <= CALLS - ended["stopped"]


def _is_held(number: int) -> bool:
    return number % 6 == 0


async def _batch(opened: Bridge, numbers: range) -> list[tuple[int, Caller, ToolMessage | None]]:
    callers = {number: Caller() for number in numbers}
    calls = {
        number: asyncio.ensure_future(opened.call("job", {"number": number}, caller, f"call-{number}"))
        for number, caller in callers.items()
    }
    for turn in range(TURNS):
        for number, call in calls.items():
            if number % 6 == 3 and number // 6 % TURNS == turn:
                call.cancel()
        await asyncio.sleep(0)
    for number in filter(_is_held, numbers):
        await until(lambda caller=callers[number]: caller.events)
        calls[number].cancel()
    await asyncio.wait(calls.values())
    return [(n, callers[n], None if call.cancelled() else call.result()) for n, call in calls.items()]
