"""The stream mode `events` is silent about what `values`, `updates` and `messages` do not show."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Annotated, Any, NotRequired
from uuid import uuid4

import pytest
from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import OmitFromOutput, PrivateStateAttr
from langchain.tools import ToolRuntime
from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.documents import Document
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import LLMResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.constants import TAG_HIDDEN, TAG_NOSTREAM
from support.agents import ListModel, agent, calls, run, says
from support.hosts import finished, scripted_host

from deerflow.host import HostOptions
from deerflow.runs.active import ActiveRun
from deerflow.runs.events.graph_events import GraphEvents

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
        self.thread_ids: set[int] = set()

    def write(self, namespace: tuple[str, ...], mode: str, event: Any) -> None:
        assert mode == "events"
        self.namespaces.append(namespace)
        self.thread_ids.add(threading.get_ident())
        self.append(event)

    def named(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self if event["event"] == kind]

    @property
    def steps(self) -> list[tuple[str, str]]:
        return [(event["event"], event["name"]) for event in self]


async def followed(graph: Any, side: str = "async") -> Told:
    """The events of one run of a graph."""
    told = Told()
    await run(graph, side, config={"callbacks": [GraphEvents("run-1", graph.output_channels, told.write)]})
    while not told or told[-1]["name"] != "LangGraph":  # those of other threads may still be on their way
        await asyncio.sleep(0)
    return told


def events_of(run: ActiveRun) -> list[dict[str, Any]]:
    return [event.data for event in run.log.after(0) if event.name.partition("|")[0] == "events"]


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


async def test_what_goes_on_when_what_was_around_it_has_ended_is_not_shown() -> None:
    told = Told()
    events, graph, node, late = GraphEvents("run-1", ["messages"], told.write), *(uuid4() for _ in range(3))
    events.on_chain_start({}, {}, run_id=graph, name="LangGraph")
    inside = {"name": "node", "metadata": {"langgraph_node": "node"}, "parent_run_id": graph}
    events.on_chain_start({}, {}, run_id=node, **inside)
    events.on_chain_end({}, run_id=node)
    steps = told.steps
    events.on_chat_model_start({}, [[HumanMessage(SECRET)]], run_id=late, parent_run_id=node, name="late")
    events.on_llm_end(LLMResult(generations=[]), run_id=late)
    assert told.steps == steps


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


async def test_so_is_a_model_inside_of_a_retriever() -> None:
    class Asking(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            raise NotImplementedError

        async def _aget_relevant_documents(
            self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
        ) -> list[Document]:
            model = ListModel(turns=[says("inner")])
            await model.ainvoke(query, {"callbacks": run_manager.get_child()})
            return [Document(SECRET)]

    @tool
    async def look() -> str:
        """Look something up."""
        return str(len(await Asking().ainvoke(SECRET)))

    graph, _ = agent([], calls("look"), says("done"), tools=[look])
    told = await followed(graph)
    assert SECRET not in str(told)
    (answered,) = [e for e in told.named("on_chat_model_end") if e["data"]["output"].text == "inner"]
    assert answered["parent_ids"][-1] == told.named("on_tool_start")[0]["run_id"]


async def test_a_graph_inside_of_a_tool_keeps_its_middlewares_state_as_well() -> None:
    inner, _ = agent([Keeping()], says("inner"))

    @tool
    async def nest() -> str:
        """Run a graph."""
        return str((await inner.ainvoke({"messages": [("user", "hi")]}))["messages"][-1].text)

    graph, _ = agent([], calls("nest"), says("done"), tools=[nest])
    told = await followed(graph)
    assert SECRET not in str(told)
    of_inner = [ns for event, ns in zip(told, told.namespaces, strict=True) if "Keeping" in event["name"]]
    assert {len(namespace) for namespace in of_inner} == {1}


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
    assert told.thread_ids == {threading.get_ident()}
    assert (of_hook["name"], of_hook["data"]) == ("of a hook", {"n": 1})
    assert of_tool["run_id"] == told.named("on_tool_start")[0]["run_id"]
