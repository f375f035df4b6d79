"""A hook has its time and its threads; beyond them the host goes on without it."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from support.agents import Counter, agent, calls, run, says, texts
from support.isolated import RUNS, Reports, contributed, isolated, node, patient, reported, wrapping

from deerflow.extensions.hook_threads import HookThreads, Lane

runs = pytest.mark.parametrize(("side", "flavour"), RUNS)
LIMIT_SECONDS = 0.15

marker = contextvars.ContextVar("marker", default="unset")


class Hang:
    """Blocks both kinds of hooks until the test is over."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.late: list[str] = []
        self.begun: list[str] = []
        self.ended = 0

    def hanging(self, kind: str, flavour: str, place: str) -> AgentMiddleware:
        def hook(me: Any, request: Any, handler: Any) -> Any:
            result = handler(request) if place == "after" else None
            self.begun.append(kind)
            self.released.wait(60)
            if place == "before":
                self._late_call(lambda: handler(request))
            self.ended += 1
            return result

        async def ahook(me: Any, request: Any, handler: Any) -> Any:
            result = await handler(request) if place == "after" else None
            self.begun.append(kind)
            while not self.released.is_set():
                try:
                    await asyncio.sleep(0.005)
                except asyncio.CancelledError:
                    continue  # the worst of hooks: it cannot be cancelled
            if place == "before":
                try:
                    await handler(request)
                except RuntimeError as error:
                    self.late.append(str(error))
            self.ended += 1
            return result

        return contributed(flavour, {kind: hook}, {kind: ahook})

    def _late_call(self, call: Any) -> None:
        try:
            call()
        except RuntimeError as error:
            self.late.append(str(error))

    async def release(self, hooks: int) -> None:
        self.released.set()
        async with asyncio.timeout(30):
            while self.ended < hooks:
                await asyncio.sleep(0.005)


@runs
@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("kind", ["wrap_model_call", "wrap_tool_call"])
async def test_a_wrap_hook_that_hangs_is_left_behind(
    side: str, flavour: str, place: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports, counter, hang = Reports(), Counter(), Hang()
    patient(monkeypatch, lambda: bool(hang.begun))
    hooks = isolated(hang.hanging(kind, flavour, place), reports=reports, limit_seconds=LIMIT_SECONDS)
    turns = [calls("count"), says("done")] if kind == "wrap_tool_call" else [says("done")]
    graph, model = agent(hooks, *turns, tools=[counter.tool])
    state = await run(graph, side)
    assert state["messages"][-1].content == "done"
    assert (len(model.seen), counter.count) == ((2, 1) if kind == "wrap_tool_call" else (1, 0))
    name = reported(kind, side, flavour)
    assert reports.messages == [f"Contributed.{name} failed and was skipped: timed out after 0.15s"]
    await hang.release(1)
    assert hang.late == (
        ["this hook was given up; the host has gone on without it"] if place == "before" else []
    )
    assert (len(model.seen), counter.count) == ((2, 1) if kind == "wrap_tool_call" else (1, 0))


@runs
async def test_a_node_hook_that_hangs_is_left_behind(side: str, flavour: str) -> None:
    released = threading.Event()

    def hook(self: Any, state: Any, runtime: Any) -> Any:
        released.wait(60)
        return {"messages": [("user", "too late")]}

    async def ahook(self: Any, state: Any, runtime: Any) -> Any:
        await asyncio.sleep(60)

    reports = Reports()
    hanging = contributed(flavour, {"before_model": hook}, {"before_model": ahook})
    graph, _ = agent(isolated(hanging, reports=reports, limit_seconds=LIMIT_SECONDS))
    assert texts((await run(graph, side))["messages"]) == ["hello", "done"]
    name = reported("before_model", side, flavour)
    assert reports.messages == [f"Contributed.{name} failed and was skipped: timed out after 0.15s"]
    released.set()


async def _later(seconds: float) -> None:
    """Come back when the loop's clock has been put forward, and what was due by then has been done."""
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]
    for _ in range(3):
        await asyncio.sleep(0)


async def test_before_and_after_the_handler_have_the_limit_each() -> None:
    class Slow(AgentMiddleware):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            await _later(25)
            response = await handler(request)
            await _later(25)
            return response

    reports = Reports()
    graph, _ = agent(isolated(Slow(), reports=reports, limit_seconds=40))
    await run(graph, "async")
    assert reports.messages == []


@runs
async def test_context_variables_go_into_the_hook_and_on_to_its_handler(side: str, flavour: str) -> None:
    seen: list[str] = []

    def spanning(request: Any) -> Any:
        seen.append(marker.get())
        marker.set("the hook's span")
        response = yield request
        seen.append(marker.get())
        return response

    class Inner(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            seen.append(marker.get())
            return handler(request)

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            seen.append(marker.get())
            return await handler(request)

    marker.set("the caller's span")
    reports = Reports()
    hook = wrapping("wrap_model_call", flavour, spanning)
    graph, _ = agent(isolated(hook, reports=reports, inside=[Inner()]))
    await run(graph, side)
    assert seen == ["the caller's span", "the hook's span", "the hook's span"]
    assert (marker.get(), reports.messages) == ("the caller's span", [])


async def test_a_synchronous_hook_leaves_the_event_loop_free() -> None:
    ticked = threading.Event()
    reports = Reports()
    hook = node("before_model", "sync", lambda state: None if ticked.wait(30) else {"messages": 5})
    graph, _ = agent(isolated(hook, reports=reports))
    running = asyncio.create_task(run(graph, "async"))
    asyncio.get_running_loop().call_later(0.01, ticked.set)
    await running
    assert reports.messages == []


async def test_hooks_inside_each_other_do_not_starve_for_threads() -> None:
    reports = Reports()
    hooks = [wrapping("wrap_model_call", "sync", _look) for _ in range(12)]
    graph, _ = agent(isolated(*hooks, reports=reports))
    states = await asyncio.gather(*(run(graph, "async") for _ in range(20)))
    assert all(texts(state["messages"]) == ["hello", "done"] for state in states)
    assert reports.messages == []


def _look(request: Any) -> Any:
    return (yield request)


def test_a_lane_runs_no_more_at_once_than_it_is_wide_and_everything_in_the_end() -> None:
    lane, lock, done = Lane(3), threading.Lock(), threading.Semaphore(0)
    at_once = most = 0

    def work() -> None:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.002)
        with lock:
            at_once -= 1
        done.release()

    for _ in range(30):
        lane.submit(work)
    for _ in range(30):
        assert done.acquire(timeout=30)
    assert most <= 3


def test_a_parked_thread_makes_room_for_the_next() -> None:
    lane, parked, go_on, ran, ended = Lane(1), *(threading.Event() for _ in range(4))

    def waiting() -> None:
        parked.set()
        lane.park()
        go_on.wait(30)
        lane.unpark()
        ended.set()

    lane.submit(waiting)
    assert parked.wait(30)
    lane.submit(ran.set)
    assert ran.wait(30)
    go_on.set()
    assert ended.wait(30)
    again = threading.Event()
    lane.submit(again.set)
    assert again.wait(30)


async def test_a_middleware_whose_threads_all_hang_is_skipped_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("deerflow.extensions.isolation_hooks.MOST_THREADS", 2)
    hang, reports = Hang(), Reports()
    patient(monkeypatch, lambda: len(hang.begun) == 2)
    hooks = isolated(
        hang.hanging("wrap_model_call", "sync", "before"), reports=reports, limit_seconds=LIMIT_SECONDS
    )
    graph, model = agent(hooks)
    await asyncio.gather(*(run(graph, "async") for _ in range(2)))
    await run(graph, "async")
    assert len(hang.begun) == 2
    timed_out = "Contributed.wrap_model_call failed and was skipped: timed out after 0.15s"
    assert reports.messages[:2] == [timed_out] * 2
    assert reports.messages[2].endswith("all of its threads hang in earlier calls")
    await hang.release(2)
    assert len(model.seen) == 3
    async with asyncio.timeout(30):
        while len(hang.begun) == 2:  # until the threads have come back, and the hook with them
            said = len(reports.messages)
            await run(graph, "async")
            await asyncio.sleep(0.005)
    assert len(reports.messages) == said


async def test_threads_are_daemons_and_used_again() -> None:
    threads, used = HookThreads(), []
    for _ in range(5):
        threads.start(lambda: used.append(threading.current_thread()))
        async with asyncio.timeout(30):
            while not threads._idle:
                await asyncio.sleep(0.001)
    assert len(used) == 5 and len(set(used)) == 1
    assert used[0].daemon
