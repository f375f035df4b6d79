"""Limits, repetitions and to-do lists, as the configuration asks for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from deerflow_extension_api import (
    AgentBuildContext,
    ExtensionData,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
)
from langchain.agents.middleware import AgentMiddleware, TodoListMiddleware
from support import tools
from support.extensions import installed
from support.hosts import answer, delegation, finished, scripted_host

from deerflow.config import RequestOptions
from deerflow.extensions import LoadedExtensions
from deerflow.host import Host
from deerflow.runs.active import ActiveRun
from deerflow.runs.record import RunStatus
from deerflow.runs.request import RunRequest

CONFIGURED = [{"use": f"support.tools:{name}"} for name in ("flaky", "ask", "search")]


def call(name: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args}


def rule(*turns: Sequence[dict[str, Any]], when: str = "^use") -> dict[str, Any]:
    asked = [{"tool_calls": list(calls)} for calls in turns]
    return {"when": when, "turns": [*asked, {"text": "{tool_results}"}]}


@asynccontextmanager
async def guarded(home: Path, guards: dict[str, Any], *rules: dict[str, Any]) -> AsyncIterator[Host]:
    async with scripted_host(home, rules, guards=guards, tools=CONFIGURED) as host:
        yield host


def results(run: ActiveRun) -> list[str]:
    return [message.text for message in run.values["messages"] if message.type == "tool"]


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    for kept in (tools.began, tools.failures, tools.asked):
        kept.clear()
    yield


class Seeing(AgentMiddleware[Any, Any]):
    def __init__(self, seen: list[str], placement: Placement) -> None:
        super().__init__()
        self._seen = seen
        self._placement = placement

    @property
    def name(self) -> str:
        return f"Seeing_{self._placement}"

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        self._seen.append(self._placement.value)
        return await handler(request)


class Contributor(MiddlewareContributor):
    def __init__(self, *placements: MiddlewarePlacement) -> None:
        self._placements = placements

    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        return self._placements


def contributing(*placements: MiddlewarePlacement) -> LoadedExtensions:
    return LoadedExtensions(middleware_contributors=(("acme:install", Contributor(*placements)),))


RETRY = {"tool_retry": {"tools": ["flaky", "ask"], "initial_delay_seconds": 0.001}}


async def test_a_named_tool_is_called_again_and_placements_keep_their_promises(tmp_path: Path) -> None:
    seen: list[str] = []
    placed = [
        MiddlewarePlacement(Seeing(seen, placement), placement)
        for placement in (Placement.TOOL_VISIBLE, Placement.TOOL_RAW)
    ]
    tools.failures.extend(["once", "twice"])
    with installed(contributing(*placed)):
        async with guarded(tmp_path, RETRY, rule([call("flaky", word="x")])) as host:
            assert answer(await finished(host, "use")) == "worked x"
    assert seen == ["tool_visible", "tool_raw", "tool_raw", "tool_raw"]


async def test_a_tool_that_keeps_failing_is_a_failed_result_after_its_attempts(tmp_path: Path) -> None:
    tools.failures.extend(["no"] * 9)
    async with guarded(tmp_path, RETRY, rule([call("flaky")])) as host:
        assert answer(await finished(host, "use")) == "flaky failed: ConnectionError: no"
    assert len(tools.began) == 3


async def test_a_tool_that_is_not_named_is_called_once(tmp_path: Path) -> None:
    tools.failures.append("no")
    async with guarded(tmp_path, {}, rule([call("flaky")])) as host:
        assert answer(await finished(host, "use")) == "flaky failed: ConnectionError: no"
    assert len(tools.began) == 1


async def test_a_question_of_a_named_tool_is_no_failure(tmp_path: Path) -> None:
    async with guarded(tmp_path, RETRY, rule([call("ask", question="q")])) as host:
        run = await finished(host, "use")
        assert run.ending is not None and run.ending.status is RunStatus.INTERRUPTED
        assert tools.asked == ["q"]
        resumed = await host.runs.start(RunRequest(thread_id=run.thread_id, command={"resume": "yes"}))
        await resumed.ended.wait()
    assert answer(resumed) == "answered: yes"


async def test_calls_beyond_a_limit_are_refused_and_the_rest_runs(tmp_path: Path) -> None:
    guards = {"max_calls_of_tool": {"flaky": 1}, "max_tool_calls": 3}
    turns = [
        [call("flaky", word="a"), call("flaky", word="b"), call("search")],
        [call("search"), call("search")],
    ]
    async with guarded(tmp_path, guards, rule(*turns)) as host:
        run = await finished(host, "use")
        again = await finished(host, "use", thread_id=run.thread_id)
    assert tools.began == ["a", "a"]
    assert sorted(results(run)) == [
        "Tool call limit exceeded. Do not call 'flaky' again.",
        "Tool call limit exceeded. Do not make additional tool calls.",
        "Tool call limit exceeded. Do not make additional tool calls.",
        "found  for nobody",
        "worked a",
    ]
    assert len(results(again)) == 2 * len(results(run))


async def test_nobody_is_asked_to_approve_what_a_limit_refuses(tmp_path: Path) -> None:
    guards = {"max_calls_of_tool": {"flaky": 1}}
    both = rule([call("flaky", word="a"), call("flaky", word="b")])
    async with guarded(tmp_path, guards, both) as host:
        run = await finished(host, "use", context={"approve_tools": ["flaky"]})
        assert run.ending is not None
        (question,) = run.ending.interrupts
        assert [action["args"] for action in question["value"]["action_requests"]] == [{"word": "a"}]
        approved = {"decisions": [{"type": "approve"}]}
        resumed = await host.runs.start(RunRequest(thread_id=run.thread_id, command={"resume": approved}))
        await resumed.ended.wait()
    assert tools.began == ["a"]
    assert resumed.ending is not None and resumed.ending.status is RunStatus.SUCCESS


async def test_a_subagent_has_its_own_count(tmp_path: Path) -> None:
    inner = rule([call("search")], when="^inner")
    outer = rule([call("search"), {**delegation("inner", "a")}])
    async with guarded(tmp_path, {"max_calls_of_tool": {"search": 1}}, inner, outer) as host:
        run = await finished(host, "use")
    assert results(run) == ["found  for nobody", "Task Succeeded. Result: found  for nobody"]


async def test_the_lead_stops_after_its_model_calls(tmp_path: Path) -> None:
    looping = {"when": "^use", "turns": [{"tool_calls": [call("search")]}]}
    async with guarded(tmp_path, {"max_model_calls": 3}, looping) as host:
        run = await finished(host, "use")
        stored = await host.database.stores.runs.get(run.run_id)
    assert answer(run) == "Stopped: the limit of 3 turns is reached."
    assert stored is not None and stored.stop_reason == "turn_capped"
    assert len(results(run)) == 3


TODOS = [{"content": "think", "status": "in_progress"}]


async def test_the_lead_keeps_a_to_do_list_and_subagents_do_not(tmp_path: Path) -> None:
    inner = rule([call("write_todos", todos=TODOS)], when="^inner")
    outer = rule([call("write_todos", todos=TODOS)], [delegation("inner", "a")])
    async with guarded(tmp_path, {"todo_list": True}, inner, outer) as host:
        run = await finished(host, "use")
    assert run.values["todos"] == TODOS
    assert "write_todos is not a valid tool" in results(run)[1]


@pytest.mark.parametrize("on", [True, False])
async def test_a_contributed_to_do_list_works_where_the_hosts_is_off(tmp_path: Path, on: bool) -> None:
    loaded = contributing(MiddlewarePlacement(TodoListMiddleware(), Placement.STANDARD))
    with installed(loaded):
        async with guarded(tmp_path, {"todo_list": on}, rule([call("write_todos", todos=TODOS)])) as host:
            run = await finished(host, "use")
    assert run.values["todos"] == TODOS
    complaint = "its tool 'write_todos' is left out: the host has one of this name"
    assert (complaint in [diagnostic.message for diagnostic in loaded.diagnostics]) is on


async def test_an_agent_whose_tools_are_listed_has_the_list_only_by_name(tmp_path: Path) -> None:
    agents = {
        name: {"description": "d", "system_prompt": "p", "tools": names}
        for name, names in (("with", ["write_todos"]), ("without", []))
    }
    sections: dict[str, Any] = {"guards": {"todo_list": True}, "subagents": {"custom_agents": agents}}
    async with scripted_host(tmp_path, **sections) as host:
        for name, has in (("with", True), ("without", False)):
            assembly = await host.assembler.lead(LoadedExtensions(), RequestOptions(agent_name=name))
            assert ("TodoListMiddleware.after_model" in assembly.graph.nodes) is has


async def test_what_is_off_costs_no_step_of_the_graph(tmp_path: Path) -> None:
    async with scripted_host(tmp_path) as host:
        assembly = await host.assembler.lead(LoadedExtensions(), RequestOptions())
    assert set(assembly.graph.nodes) == {"__start__", "model", "tools"}
