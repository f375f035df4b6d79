"""The stream mode `events`: complete and in order, under namespaces, and at the end of a run."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.types import interrupt
from support.agents import agent, says
from support.hosts import DELEGATE_TWICE, finished, scripted_host, start

from deerflow.host import HostOptions
from deerflow.runs.active import ActiveRun
from deerflow.runs.events.graph_events import GraphEvents
from deerflow.runs.request import RunRequest

EVENTS = ("events",)
WRITING: dict[str, Any] = {
    "when": "^write",
    "turns": [
        {"tool_calls": [{"name": "write_file", "args": {"path": "a", "content": "b"}, "id": "call-1"}]},
        {"text": "done"},
    ],
}


def events_of(run: ActiveRun) -> list[dict[str, Any]]:
    return [event.data for event in run.log.after(0) if event.name.partition("|")[0] == "events"]


async def test_graph_nodes_models_and_tools_tell_what_they_do_in_order(tmp_path: Path) -> None:
    async with scripted_host(tmp_path, [WRITING]) as host:
        run = await finished(host, "write", stream_modes=("events", "updates"))
    names = [
        (event.data["event"], event.data["name"]) if event.name == "events" else event.name
        for event in run.log.after(0)
    ]
    streams = [("on_chat_model_stream", "ScriptedChatModel")] * 2
    model = [
        ("on_chain_start", "model"),
        ("on_chat_model_start", "ScriptedChatModel"),
        *streams,
        ("on_chat_model_end", "ScriptedChatModel"),
        ("on_chain_stream", "model"),
        ("on_chain_end", "model"),
        "updates",
    ]
    assert names == [
        "metadata",
        ("on_chain_start", "lead_agent"),
        *model,
        ("on_chain_start", "tools"),
        ("on_tool_start", "write_file"),
        ("on_tool_end", "write_file"),
        ("on_chain_stream", "tools"),
        ("on_chain_end", "tools"),
        "updates",
        *model,
        ("on_chain_end", "lead_agent"),
        "end",
    ]


async def test_events_say_where_they_belong(tmp_path: Path) -> None:
    async with scripted_host(tmp_path, [WRITING]) as host:
        run = await finished(host, "write", stream_modes=EVENTS)
    events = events_of(run)
    assert {frozenset(event) for event in events} == {
        frozenset(("event", "name", "run_id", "parent_ids", "tags", "metadata", "data"))
    }
    first = {(event["event"], event["name"]): event for event in reversed(events)}
    root = first["on_chain_start", "lead_agent"]
    assert (root["run_id"], root["parent_ids"]) == (run.run_id, [])
    node = first["on_chain_start", "tools"]
    assert node["parent_ids"] == [run.run_id]
    told = first["on_tool_start", "write_file"], first["on_tool_end", "write_file"]
    assert [event["parent_ids"] for event in told] == [[run.run_id, node["run_id"]]] * 2
    assert told[0]["data"] == {"input": {"path": "a", "content": "b"}}
    output = told[1]["data"]["output"]
    assert (output["type"], output["tool_call_id"]) == ("tool", "call-1")
    assert output["id"] == run.values["messages"][2].id
    assert first["on_chain_end", "lead_agent"]["data"]["output"]["messages"][-1]["content"] == "done"
    assert first["on_chat_model_stream", "ScriptedChatModel"]["metadata"]["thread_id"] == run.thread_id


async def test_a_model_streams_for_events_alone_and_its_messages_do_not_come_along(tmp_path: Path) -> None:
    async with scripted_host(tmp_path) as host:
        run = await finished(host, "hello", stream_modes=EVENTS)
    chunks = [event["data"]["chunk"] for event in events_of(run) if event["event"] == "on_chat_model_stream"]
    assert [chunk["content"] for chunk in chunks] == ["echo: ", "hello", ""]
    assert {event.name for event in run.log.after(0)} == {"metadata", "events", "end"}


async def test_runs_that_ask_for_no_events_have_no_callback(tmp_path: Path) -> None:
    seen: list[Any] = []

    class Looking(AgentMiddleware[Any, Any]):
        async def abefore_model(self, state: Any, runtime: Any, config: RunnableConfig) -> None:
            handlers = getattr(config["callbacks"], "handlers", [])
            seen.append(any(isinstance(handler, GraphEvents) for handler in handlers))

    async with scripted_host(tmp_path, options=HostOptions(middlewares=(Looking(),))) as host:
        await finished(host, "hello", stream_modes=("values", "messages-tuple"))
        await finished(host, "hello", stream_modes=("values", "events"))
    assert seen == [False, True]


async def test_subagents_are_as_silent_as_in_other_modes(tmp_path: Path) -> None:
    async with scripted_host(tmp_path, [DELEGATE_TWICE]) as host:
        run = await finished(host, "delegate", stream_modes=EVENTS, stream_subgraphs=True)
    assert {event.name for event in run.log.after(0)} == {"metadata", "events", "end"}
    names = [event["name"] for event in events_of(run) if event["event"].endswith("_start")]
    assert names.count("ScriptedChatModel") == 2
    assert set(names) == {"lead_agent", "model", "ScriptedChatModel", "tools", "task"}


@pytest.mark.parametrize("subgraphs", [True, False])
async def test_graphs_inside_of_tools_show_under_their_namespace_where_that_is_asked(
    tmp_path: Path, subgraphs: bool
) -> None:
    inner, _ = agent([], says("inner"))

    class Bringing(AgentMiddleware[Any, Any]):
        def __init__(self, tools: Sequence[Any]) -> None:
            super().__init__()
            self.tools = list(tools)

    @tool
    async def nest() -> str:
        """Run a graph."""
        return str((await inner.ainvoke({"messages": [("user", "hi")]}))["messages"][-1].text)

    rule: dict[str, Any] = {
        "when": "^nest", "turns": [{"tool_calls": [{"name": "nest", "id": "call-1"}]}, {"text": "done"}],
    }  # fmt: skip
    async with scripted_host(tmp_path, [rule], HostOptions(middlewares=(Bringing([nest]),))) as host:
        run = await finished(host, "nest", stream_modes=EVENTS, stream_subgraphs=subgraphs)
    names = {event.name.partition("|")[0] for event in run.log.after(0)}
    nested = [event.data for event in run.log.after(0) if event.name.startswith("events|tools:")]
    assert names == {"metadata", "events", "end"}
    assert {event["name"] for event in nested} == ({"model", "ListModel"} if subgraphs else set())
    at_root = {event.data["name"] for event in run.log.after(0) if event.name == "events"}
    assert at_root == {"lead_agent", "model", "ScriptedChatModel", "tools", "nest"}


async def test_a_run_that_fails_says_so_last(tmp_path: Path) -> None:
    rule: dict[str, Any] = {"when": "^fail", "turns": [{"error": "the model broke"}]}
    async with scripted_host(tmp_path, [rule]) as host:
        run = await finished(host, "fail", stream_modes=EVENTS)
    names = [event.name for event in run.log.after(0)]
    assert names[-2:] == ["error", "end"]
    assert set(names[1:-2]) == {"events"}
    assert events_of(run)[-1]["event"] == "on_chat_model_start"


async def test_a_hook_that_cancels_itself_has_failed(tmp_path: Path) -> None:
    class Leaving(AgentMiddleware[Any, Any]):
        async def abefore_model(self, state: Any, runtime: Any) -> None:
            raise asyncio.CancelledError

    async with scripted_host(tmp_path, options=HostOptions(middlewares=(Leaving(),))) as host:
        run = await finished(host, "hello", stream_modes=EVENTS)
    assert [event.name for event in run.log.after(0)][-2:] == ["error", "end"]


async def test_a_run_that_asks_a_person_ends_as_interrupted_and_goes_on(tmp_path: Path) -> None:
    @tool
    async def ask() -> str:
        """Ask a person."""
        return str(interrupt("sure?"))

    class Bringing(AgentMiddleware[Any, Any]):
        tools = [ask]

    rule: dict[str, Any] = {
        "when": "^ask", "turns": [{"tool_calls": [{"name": "ask", "id": "call-1"}]}, {"text": "done"}],
    }  # fmt: skip
    async with scripted_host(tmp_path, [rule], HostOptions(middlewares=(Bringing(),))) as host:
        run = await finished(host, "ask", stream_modes=EVENTS)
        assert run.ending is not None and [item["value"] for item in run.ending.interrupts] == ["sure?"]
        assert [event["event"] for event in events_of(run)][-2:] == ["on_tool_error", "on_chain_end"]
        answer = RunRequest(run.thread_id, command={"resume": "yes"}, stream_modes=EVENTS)
        answered = await host.runs.start(answer)
        await answered.ended.wait()
    ends = [event for event in events_of(answered) if event["event"] == "on_tool_end"]
    assert [event["data"]["output"]["content"] for event in ends] == ["yes"]


async def test_a_run_that_is_stopped_leaves_no_task_and_no_callback(tmp_path: Path) -> None:
    rule: dict[str, Any] = {"when": "^slow", "turns": [{"delay_seconds": 60, "text": "too late"}]}
    async with scripted_host(tmp_path, [rule]) as host:
        await finished(host, "hello", stream_modes=EVENTS)
        before = asyncio.all_tasks()
        run = await start(host, "slow", stream_modes=EVENTS)
        while not any(event.data["event"] == "on_chat_model_start" for event in run.log.after(1)):
            await run.log.wait(1)
        run.stop("interrupt")
        await run.ended.wait()
        while not asyncio.all_tasks() <= before:
            await asyncio.sleep(0)
    assert run.log.after(0)[-1].data["status"] == "interrupted"
    del run
    gc.collect()
    assert not [found for found in gc.get_objects() if type(found) is GraphEvents]


async def test_a_long_run_keeps_nothing_of_what_has_ended(tmp_path: Path) -> None:
    kept: list[int] = []

    class Counting(AgentMiddleware[Any, Any]):
        async def aafter_agent(self, state: Any, runtime: Any) -> None:
            gc.collect()
            kept.append(sum(type(found).__module__ == GraphEvents.__module__ for found in gc.get_objects()))

    turns: list[Any] = [
        {"tool_calls": [{"name": "ls", "args": {"path": f"{n}"}, "id": f"call-{n}"}]} for n in range(3)
    ]
    rule = {"when": "^many", "turns": [*turns, {"text": "done"}]}
    async with scripted_host(tmp_path, [rule], HostOptions(middlewares=(Counting(),))) as host:
        run = await finished(host, "many", stream_modes=EVENTS)
    assert [event["event"] for event in events_of(run)].count("on_chat_model_end") == 4
    assert kept == [3], "the callback, the graph, and the node that counts"
