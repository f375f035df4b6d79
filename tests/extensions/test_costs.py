"""What extensions cost is counted, hook by hook: calls, failures, and the time that is their own."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deerflow_extension_api import (
    AgentAssemblyObserver,
    ExtensionService,
    MiddlewareContributor,
    TaskLifecycleContributor,
)
from langchain.agents.middleware import AgentMiddleware
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt
from support.agents import Counter, agent, calls, run, says
from support.extensions import Seen, installed, recording
from support.hosts import DELEGATE_TWICE, finished, scripted_config, scripted_host
from support.isolated import RUNS, SOURCE, Reports, isolated, node, wrapping

from deerflow.client import DeerFlowClient
from deerflow.extensions import LoadedExtensions
from deerflow.extensions.costs import costs_told
from deerflow.extensions.outcomes import HookOutcome, listen_to_outcomes, record_outcome
from deerflow.host import HostOptions

runs = pytest.mark.parametrize(("side", "flavour"), RUNS)
HANDLER_SECONDS = 0.3


@pytest.fixture
def outcomes() -> Iterator[list[HookOutcome]]:
    """Every outcome of the test, in order."""
    heard: list[HookOutcome] = []
    release = listen_to_outcomes(heard.append)
    yield heard
    release()


def told(outcomes: list[HookOutcome]) -> list[tuple[str, str, bool]]:
    return [(outcome.source, outcome.hook, outcome.failed) for outcome in outcomes]


class Slow(AgentMiddleware[Any, Any]):
    """A model that takes its time."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        time.sleep(HANDLER_SECONDS)  # on a thread of its own, as sync hooks are
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        await asyncio.sleep(HANDLER_SECONDS)
        return await handler(request)


def looks_on(request: Any) -> Any:
    return (yield request)


def fails_before(request: Any) -> Any:
    raise RuntimeError("boom")
    yield


def fails_after(request: Any) -> Any:
    yield request
    raise RuntimeError("boom")


def never_calls(request: Any) -> Any:
    return None
    yield


def sends_nothing(request: Any) -> Any:
    return (yield None)


@runs
@pytest.mark.parametrize(
    ("body", "failed"),
    [
        (looks_on, False),
        (fails_before, True),
        (fails_after, True),
        (never_calls, True),
        (sends_nothing, True),
    ],
)
async def test_each_wrap_hook_is_counted_once(
    side: str, flavour: str, body: Any, failed: bool, outcomes: list[HookOutcome]
) -> None:
    counter = Counter()
    hooks = [wrapping(kind, flavour, body) for kind in ("wrap_model_call", "wrap_tool_call")]
    graph, _ = agent(isolated(*hooks, reports=Reports()), calls("count"), says("done"), tools=[counter.tool])
    await run(graph, side)
    hooks_in_order = ["wrap_model_call", "wrap_tool_call", "wrap_model_call"]
    assert told(outcomes) == [(SOURCE, hook, failed) for hook in hooks_in_order]


@runs
async def test_the_time_of_the_handler_is_not_the_hooks(
    side: str, flavour: str, outcomes: list[HookOutcome]
) -> None:
    hook = wrapping("wrap_model_call", flavour, looks_on)
    graph, _ = agent(isolated(hook, reports=Reports(), inside=[Slow()]), says("done"))
    began = time.monotonic()
    await run(graph, side)
    took_seconds = time.monotonic() - began
    (outcome,) = outcomes
    assert 0 <= outcome.seconds <= took_seconds - 0.9 * HANDLER_SECONDS
    assert outcome.span_seconds - outcome.seconds >= 0.9 * HANDLER_SECONDS


@runs
async def test_the_call_that_a_hook_leaves_to_the_host_is_not_its_time(
    side: str, flavour: str, outcomes: list[HookOutcome]
) -> None:
    hook = wrapping("wrap_model_call", flavour, never_calls)
    graph, _ = agent(isolated(hook, reports=Reports(), inside=[Slow()]), says("done"))
    began = time.monotonic()
    await run(graph, side)
    took_seconds = time.monotonic() - began
    assert outcomes[0].span_seconds <= took_seconds - 0.9 * HANDLER_SECONDS


def raises(state: Any) -> Any:
    raise RuntimeError("boom")


@runs
@pytest.mark.parametrize("where", ["before_agent", "before_model", "after_model", "after_agent"])
@pytest.mark.parametrize(
    ("body", "failed"), [(lambda state: None, False), (raises, True), (lambda state: "nonsense", True)]
)
async def test_each_node_hook_is_counted_once(
    side: str, flavour: str, where: str, body: Callable[[Any], Any], failed: bool, outcomes: list[HookOutcome]
) -> None:
    graph, _ = agent(isolated(node(where, flavour, body), reports=Reports()))
    await run(graph, side)
    assert told(outcomes) == [(SOURCE, where, failed)]


@runs
async def test_a_hook_out_of_time_has_failed(side: str, flavour: str, outcomes: list[HookOutcome]) -> None:
    released = threading.Event()

    class Hanging(AgentMiddleware[Any, Any]):
        if flavour != "async":

            def before_model(self, state: Any, runtime: Any) -> None:
                released.wait(60)  # a sync hook cannot be cancelled: it is left behind

        if flavour != "sync":

            async def abefore_model(self, state: Any, runtime: Any) -> None:
                await asyncio.sleep(60)

    graph, _ = agent(isolated(Hanging(), reports=Reports(), limit_seconds=0.1))
    try:
        await run(graph, side)
    finally:
        released.set()
    if (side, flavour) != ("sync", "async"):
        assert told(outcomes) == [(SOURCE, "before_model", True)]
        assert outcomes[0].seconds >= 0.09


async def test_asking_a_person_is_no_failure(outcomes: list[HookOutcome]) -> None:
    hook = node("before_model", "sync", lambda state: interrupt("well?"))
    graph, _ = agent(isolated(hook, reports=Reports()), checkpointer=InMemorySaver())
    await run(graph, "async", config={"configurable": {"thread_id": "1"}})
    assert told(outcomes) == [(SOURCE, "before_model", False)]


class Everything(MiddlewareContributor, AgentAssemblyObserver, ExtensionService, TaskLifecycleContributor):
    """Each hook fails where `broken` says so."""

    def __init__(self, *, broken: bool) -> None:
        self.broken = broken

    def contribute_middlewares(self, app_store: Any, ctx: Any) -> Any:
        return 5 if self.broken else ()

    def on_agent_assembled(self, app_store: Any, descriptor: Any) -> None:
        self._fail()

    async def start(self, deps: Any) -> None:
        self._fail()

    async def stop(self) -> None:
        self._fail()

    async def on_task_start(self, app_store: Any, task_store: Any, info: Any) -> None:
        self._fail()

    async def on_task_stop(self, app_store: Any, task_store: Any, info: Any, outcome: Any) -> None:
        self._fail()

    def _fail(self) -> None:
        if self.broken:
            raise RuntimeError("boom")


def loaded(one: Everything) -> LoadedExtensions:
    own: Any = ((SOURCE, one),)
    return LoadedExtensions(
        middleware_contributors=own, agent_assembly_observers=own, services=own, task_lifecycle=own
    )


@pytest.mark.parametrize("broken", [False, True])
async def test_every_other_hook_of_a_run_is_counted(
    tmp_path: Path, broken: bool, outcomes: list[HookOutcome]
) -> None:
    with installed(loaded(Everything(broken=broken))) as extensions:
        options = HostOptions(services_of=extensions, owns_notification_loop=True)
        async with scripted_host(tmp_path, options=options) as host:
            assert (await finished(host, "hello")).ending.error is None
    hooks = "start contribute_middlewares on_agent_assembled on_task_start on_task_stop stop"
    assert sorted(told(outcomes)) == sorted((SOURCE, hook, broken) for hook in hooks.split())


def costs_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage().rpartition(", time ")[0]
        for record in caplog.records
        if ", time " in record.getMessage()
    ]


async def test_a_host_tells_at_its_end_what_hooks_cost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with installed(recording(Seen())):
        async with scripted_host(tmp_path, [DELEGATE_TWICE]) as host:
            await finished(host, "delegate")
            assert costs_in(caplog) == []
    assert sorted(costs_in(caplog)) == [
        "Extension recorder:install: contribute_middlewares: calls 2, failures 0",
        "Extension recorder:install: on_task_start: calls 3, failures 0",
        "Extension recorder:install: on_task_stop: calls 3, failures 0",
        "Extension recorder:install: wrap_model_call: calls 4, failures 0",
        "Extension recorder:install: wrap_tool_call: calls 2, failures 0",
    ]


def test_the_embedded_client_tells_it_when_it_is_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with installed(recording(Seen())), DeerFlowClient(scripted_config(tmp_path)) as client:
        client.chat("hello")
    assert "Extension recorder:install: wrap_model_call: calls 1, failures 0" in costs_in(caplog)


async def test_where_no_hook_ran_nothing_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with scripted_host(tmp_path) as host:
        await finished(host, "hello")
    assert costs_in(caplog) == []


def test_the_dearest_hook_of_an_extension_comes_first(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with costs_told():
        record_outcome("b:install", "stop", 9.0, failed=False)
        record_outcome("a:install", "start", 1.0, failed=True)
        record_outcome("a:install", "stop", 2.0, failed=False)
        record_outcome("a:install", "stop", 2.0, failed=True)
    record_outcome("a:install", "late", 1.0, failed=True)
    assert caplog.messages == [
        "Extension a:install: stop: calls 2, failures 1, time 4.000 s",
        "Extension a:install: start: calls 1, failures 1, time 1.000 s",
        "Extension b:install: stop: calls 1, failures 0, time 9.000 s",
    ]
