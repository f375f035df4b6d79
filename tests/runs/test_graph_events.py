"""The stream mode `events`: complete in its order, and silent about what nobody else shows."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NotRequired

import pytest
from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import OmitFromOutput, PrivateStateAttr
from langchain.tools import ToolRuntime
from langchain_core.callbacks import adispatch_custom_event, dispatch_custom_event
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langgraph.constants import TAG_HIDDEN, TAG_NOSTREAM
from langgraph.types import interrupt
from support.agents import ListModel, agent, calls, run, says
from support.hosts import DELEGATE_TWICE, finished, scripted_host, start

from deerflow.host import HostOptions
from deerflow.runs.active import ActiveRun
from deerflow.runs.graph_events import GraphEvents
from deerflow.runs.request import RunRequest

SECRET = "nobody-else-shows-this"
EVENTS = ("events",)
WRITING: dict[str, Any] = {
    "when": "^write",
    "turns": [
        {"tool_calls": [{"name": "write_file", "args": {"path": "a", "content": "b"}, "id": "call-1"}]},
        {"text": "done"},
    ],
}


class Told(list[dict[str, Any]]):
    """Events of one graph, with their namespaces; `write` is what `GraphEvents` wants."""

    def __init__(self) -> None:
        super().__init__()
        self.namespaces: list[tuple[str, ...]] = []

    def write(self, namespace: tuple[str, ...], mode: str, event: Any) -> None:
        assert mode == "events"
        self.namespaces.append(namespace)
        self.append(event)

    def named(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self if event["event"] == kind]

    @property
    def steps(self) -> list[tuple[str, str]]:
        return [(event["event"], event["name"]) for event in self]


async def followed(graph: Any, side: str = "async", given: Any = "hello", **config: Any) -> Told:
    """The events of one run of a graph."""
    told = Told()
    callback = GraphEvents("run-1", graph.output_channels, told.write)
    await run(graph, side, given, {"callbacks": [callback], **config})
    await asyncio.sleep(0)  # what came from other threads
    return told


def events_of(run: ActiveRun) -> list[dict[str, Any]]:
    return [event.data for event in run.log.after(0) if event.name.partition("|")[0] == "events"]


# What comes, and in which order.


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


# What does not come.


class Notes(AgentState[Any]):
    secret: NotRequired[Annotated[str, PrivateStateAttr]]
    unsaid: NotRequired[Annotated[str, OmitFromOutput]]
    notes: NotRequired[str]


class Keeping(AgentMiddleware[Any, Any]):
    """Keeps something for itself in the state, beside something for all."""

    state_schema = Notes

    async def abefore_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"secret": SECRET, "unsaid": SECRET, "notes": "for all"}

    async def aafter_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"secret": state["secret"] + "!"}


async def test_what_middlewares_keep_for_themselves_is_not_shown(tmp_path: Path) -> None:
    async with scripted_host(tmp_path, [WRITING], HostOptions(middlewares=(Keeping(),))) as host:
        run = await finished(host, "write", stream_modes=EVENTS)
    told = "".join(map(json.dumps, events_of(run)))
    assert SECRET not in told
    for name in ("secret", "unsaid", "__deerflow"):
        assert f'"{name}' not in told
    ends = [event for event in events_of(run) if event["event"] == "on_chain_end"]
    by_name = {event["name"]: event["data"] for event in ends}
    assert by_name["Keeping.before_model"]["output"] == {"notes": "for all"}
    assert by_name["Keeping.after_model"]["output"] == {}
    assert by_name["model"]["input"].keys() == by_name["lead_agent"]["output"].keys() == {"messages", "notes"}


class Prompting(AgentMiddleware[Any, Any]):
    """Tells the model more than was said, and changes one message on the way."""

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        first, *others = request.messages
        changed = first.model_copy(update={"content": SECRET})
        added = HumanMessage(SECRET, id="added")
        return await handler(
            request.override(messages=[added, changed, *others], system_message=SystemMessage(SECRET))
        )


async def test_of_a_prompt_only_what_the_state_holds_is_shown(tmp_path: Path) -> None:
    async with scripted_host(tmp_path, options=HostOptions(middlewares=(Prompting(),))) as host:
        run = await finished(host, "one")
        run = await finished(host, "two", thread_id=run.thread_id, stream_modes=EVENTS)
    asked, ended = [event["data"] for event in events_of(run) if event["name"] == "ScriptedChatModel"][::4]
    (prompt,) = asked["input"]["messages"]
    assert [message["content"] for message in prompt] == ["echo: " + SECRET, "two"]
    assert [message["type"] for message in prompt] == ["ai", "human"]
    assert ended["input"] == asked["input"]


async def test_the_hosts_own_prompt_is_not_shown(tmp_path: Path) -> None:
    async with scripted_host(tmp_path) as host:
        run = await finished(host, "hello", stream_modes=EVENTS)
    assert "You are the lead agent" not in json.dumps(events_of(run))


class Dressing(AgentMiddleware[Any, Any]):
    """Gives tools more than the model asked, and the model less than tools said."""

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        call = {**request.tool_call, "args": {**request.tool_call["args"], "word": SECRET}}
        result = await handler(request.override(tool_call=call))
        return result.model_copy(update={"content": "cleaned"})


async def test_of_a_tool_is_shown_what_was_asked_and_what_the_state_got() -> None:
    words: list[str] = []

    @tool
    async def count(word: str, runtime: ToolRuntime) -> str:
        """Count."""
        words.append(word)
        return f"raw {word}"

    count.metadata, count.tags = {"made by": SECRET}, [SECRET]
    graph, _ = agent([Dressing()], calls("count", word="a"), says("done"), tools=[count])
    told = await followed(graph)
    assert words == [SECRET]
    assert SECRET not in str(told)
    (began,), (ended,) = told.named("on_tool_start"), told.named("on_tool_end")
    assert began["data"]["input"] == ended["data"]["input"] == {"word": "a"}
    assert ended["data"]["output"].content == "cleaned"
    assert (began["tags"], began["metadata"]["langgraph_node"]) == ([], "tools")


async def test_what_runs_inside_of_a_tool_or_hook_is_not_shown() -> None:
    class Asking(AgentMiddleware[Any, Any]):
        async def abefore_model(self, state: Any, runtime: Any) -> None:
            await inside(SECRET)

    async def inside(text: str) -> None:
        await RunnableLambda(lambda given: given).ainvoke(text)
        await FakeListLLM(responses=[SECRET]).ainvoke(text)
        await inner.ainvoke({"word": text})
        for tag in (TAG_NOSTREAM, TAG_HIDDEN):
            await ListModel(turns=[says(SECRET)]).ainvoke(text, {"tags": [tag]})

    @tool
    async def inner(word: str) -> str:
        """Say it."""
        return word

    @tool
    async def outer() -> str:
        """Say nothing."""
        await inside(SECRET)
        return "nothing"

    graph, _ = agent([Asking()], calls("outer"), says("done"), tools=[outer])
    told = await followed(graph)
    assert SECRET not in str(told)
    assert {name for _, name in told.steps} == {
        "LangGraph", "Asking.before_model", "model", "ListModel", "tools", "outer",
    }  # fmt: skip


async def test_a_model_inside_of_a_tool_is_shown_without_its_prompt_as_its_messages_are() -> None:
    @tool
    async def ask() -> str:
        """Ask another model, by way of a chain."""
        chain = RunnableLambda(lambda given: [HumanMessage(given, id="x")]) | ListModel(turns=[says("inner")])
        return str((await chain.ainvoke(SECRET)).text)

    graph, _ = agent([], calls("ask"), says("done"), tools=[ask])
    told = await followed(graph)
    assert SECRET not in str(told)
    (answered,) = [e for e in told.named("on_chat_model_end") if e["data"]["output"].text == "inner"]
    assert answered["data"]["input"] == {"messages": [[]]}
    assert answered["parent_ids"] == [
        "run-1", told.named("on_chain_start")[2]["run_id"], told.named("on_tool_start")[0]["run_id"],
    ]  # fmt: skip


async def test_the_error_of_a_tool_says_no_more_than_its_kind() -> None:
    @tool
    async def fail() -> str:
        """Fail."""
        raise ValueError(SECRET)

    class Softening(AgentMiddleware[Any, Any]):
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            try:
                return await handler(request)
            except ValueError:
                return ToolMessage("it failed", tool_call_id=request.tool_call["id"], status="error")

    graph, _ = agent([Softening()], calls("fail"), says("done"), tools=[fail])
    told = await followed(graph)
    assert SECRET not in str(told)
    (failed,) = told.named("on_tool_error")
    assert failed["data"] == {"error": "ValueError", "input": {}, "tool_call_id": "fail-0"}
    assert told.named("on_tool_end") == []


@pytest.mark.parametrize("side", ["sync", "async"])
async def test_what_tools_and_hooks_dispatch_comes_from_what_is_shown_around_it(side: str) -> None:
    class Telling(AgentMiddleware[Any, Any]):
        def before_model(self, state: Any, runtime: Any) -> None:
            dispatch_custom_event("of a hook", {"n": 1})

    @tool
    def tell() -> str:
        """Tell, in a chain of its own."""
        return str(RunnableLambda(lambda _: dispatch_custom_event("of a tool", object())).invoke(SECRET))

    @tool
    async def atell() -> str:
        """The same."""

        async def send(_: Any) -> None:
            await adispatch_custom_event("of a tool", object())

        return str(await RunnableLambda(send).ainvoke(SECRET))

    name = "tell" if side == "sync" else "atell"
    graph, _ = agent([Telling()], calls(name), says("done"), tools=[tell, atell])
    told = await followed(graph, side)
    of_hook, of_tool, _ = told.named("on_custom_event")
    assert SECRET not in str(told)
    assert (of_hook["name"], of_hook["data"]) == ("of a hook", {"n": 1})
    assert of_tool["run_id"] == told.named("on_tool_start")[0]["run_id"]


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
    inner, _ = agent([Keeping()], says("inner"))

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
    assert {event["name"] for event in nested} == (
        {"Keeping.before_model", "model", "ListModel", "Keeping.after_model"} if subgraphs else set()
    )
    assert SECRET not in json.dumps(nested)
    assert "nest" in {event["name"] for event in events_of(run)}


# How runs end.


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
