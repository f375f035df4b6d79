"""What `fold` gives to `create_agent`, and single-sided hooks on the side that they lack."""

from __future__ import annotations

import asyncio
import contextvars
import operator
import threading
from typing import Annotated, Any

import pytest
from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
from langchain.agents.middleware.types import ExtendedModelResponse, TracePolicy
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from langsmith import Client
from langsmith.run_helpers import tracing_context
from support.agents import SIDES, Counter, agent, calls, run, says, texts

from deerflow.agents.fold import fold

marker = contextvars.ContextVar("marker", default="unset")


class Notes(AgentState[Any]):
    notes: Annotated[list[str], operator.add]


@tool
def greet(name: str = "") -> str:
    """Greet."""
    return f"hello {name}"


class WrapsModel(AgentMiddleware):
    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


class WrapsTool(AgentMiddleware):
    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


class Node(AgentMiddleware):
    def before_model(self, state: Any, runtime: Any) -> Any:
        return None


class Mixed(WrapsModel):
    trace_policy = TracePolicy()
    tools = (greet,)
    state_schema = Notes

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: Any, runtime: Any) -> Any:
        return {"jump_to": "end", "notes": ["jumped"]}


class SyncModel(AgentMiddleware):
    def __init__(self, inside: Any = None) -> None:
        self.inside = inside or (lambda request, handler: handler(request))

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return self.inside(request, handler)


class AsyncModel(AgentMiddleware):
    def __init__(self, inside: Any = None) -> None:
        self.inside = inside

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        await asyncio.sleep(0)
        if self.inside is not None:
            return await self.inside(request, handler)
        return await handler(request)


class Commanding(WrapsModel):
    def __init__(self, note: str) -> None:
        self.note = note

    @property
    def name(self) -> str:
        return self.note

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return ExtendedModelResponse(handler(request), Command(update={"notes": [self.note]}))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return ExtendedModelResponse(await handler(request), Command(update={"notes": [self.note]}))


class Twice(WrapsModel):
    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        handler(request)
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        await handler(request)
        return await handler(request)


def names(middlewares: list[AgentMiddleware]) -> list[str]:
    return [middleware.name for middleware in middlewares]


def test_nothing_is_added_where_nothing_wraps() -> None:
    node = Node()
    assert fold([node]) == [node]
    assert fold([]) == []


def test_one_middleware_wraps_for_all_and_has_only_the_hooks_in_use() -> None:
    [wraps] = fold([WrapsModel(), WrapsModel()])
    assert type(wraps).wrap_model_call is not AgentMiddleware.wrap_model_call
    assert type(wraps).wrap_tool_call is AgentMiddleware.wrap_tool_call
    [wraps] = fold([WrapsTool()])
    assert type(wraps).wrap_model_call is AgentMiddleware.wrap_model_call
    assert type(wraps).awrap_tool_call is not AgentMiddleware.awrap_tool_call


def test_a_middleware_of_the_same_name_does_not_collide() -> None:
    taken = type("WrapHooks", (Node,), {})()
    folded = fold([taken, WrapsModel()])
    assert len(set(names(folded))) == 2
    agent(folded)


def test_node_hooks_stay_in_place_with_name_jumps_state_tools_and_trace_policy() -> None:
    mixed = Mixed()
    wraps, first, shown, last = fold([Node(), mixed, type("Last", (Node,), {})()])
    assert [first.name, shown.name, last.name] == ["Node", "Mixed", "Last"]
    assert type(shown).wrap_model_call is AgentMiddleware.wrap_model_call
    assert type(shown).after_model.__can_jump_to__ == ["end"]
    assert (list(shown.tools), shown.state_schema, shown.trace_policy) == ([greet], Notes, mixed.trace_policy)
    assert type(wraps).awrap_model_call is not AgentMiddleware.awrap_model_call


def test_one_that_only_wraps_leaves_nothing_but_its_tools_and_state() -> None:
    class WithTools(WrapsTool):
        tools = (greet,)

    folded = fold([WrapsModel(), WithTools()])
    assert names(folded) == ["WrapHooks", "WithTools"]
    assert list(folded[1].tools) == [greet]


@pytest.mark.parametrize("side", SIDES)
async def test_jump_and_state_update_of_a_folded_middleware_apply(side: str) -> None:
    graph, model = agent(fold([Mixed()]), calls("greet"), says("never"))
    state = await run(graph, side)
    assert len(model.seen) == 1
    assert state["notes"] == ["jumped"]


@pytest.mark.parametrize("side", SIDES)
async def test_commands_apply_innermost_first(side: str) -> None:
    stack = [Commanding("outer"), WrapsModel(), Commanding("middle"), Commanding("inner")]
    graph, _ = agent(fold(stack), state_schema=Notes)
    assert (await run(graph, side))["notes"] == ["inner", "middle", "outer"]


@pytest.mark.parametrize("side", SIDES)
async def test_a_repeated_call_forgets_the_commands_of_the_call_before(side: str) -> None:
    graph, model = agent(fold([Twice(), Commanding("inner")]), state_schema=Notes)
    assert (await run(graph, side))["notes"] == ["inner"]
    assert len(model.seen) == 2


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", [SyncModel, AsyncModel])
async def test_a_single_sided_hook_works_on_both_sides(side: str, kind: Any) -> None:
    graph, model = agent(fold([WrapsModel(), kind(), Commanding("inner")]), state_schema=Notes)
    state = await run(graph, side)
    assert texts(state["messages"]) == ["hello", "done"]
    assert state["notes"] == ["inner"]
    assert len(model.seen) == 1


@pytest.mark.parametrize("side", SIDES)
async def test_single_sided_tool_hooks_work_on_both_sides(side: str) -> None:
    class SyncTool(AgentMiddleware):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            handler(request)
            return handler(request)

    class AsyncTool(AgentMiddleware):
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            changed = {**request.tool_call, "args": {"word": "changed"}}
            return await handler(request.override(tool_call=changed))

    counter = Counter()
    graph, _ = agent(fold([SyncTool(), AsyncTool()]), calls("count"), says("done"), tools=[counter.tool])
    state = await run(graph, side)
    assert counter.args == ["changed", "changed"]
    assert texts(state["messages"])[2:] == ["counted", "done"]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", [SyncModel, AsyncModel])
async def test_errors_of_the_model_reach_a_single_sided_hook_and_the_caller(side: str, kind: Any) -> None:
    seen: list[str] = []

    def inside(request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except ValueError as error:
            seen.append(str(error))
            raise

    async def ainside(request: Any, handler: Any) -> Any:
        try:
            return await handler(request)
        except ValueError as error:
            seen.append(str(error))
            raise

    hook = kind(inside if kind is SyncModel else ainside)
    graph, _ = agent(fold([hook]), ValueError("no model"))
    with pytest.raises(ValueError, match="no model"):
        await run(graph, side)
    assert seen == ["no model"]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", [SyncModel, AsyncModel])
async def test_context_variables_go_in_and_on_to_the_handler(side: str, kind: Any) -> None:
    seen: list[str] = []

    def inside(request: Any, handler: Any) -> Any:
        seen.append(marker.get())
        marker.set("set by the hook")
        return handler(request)

    async def ainside(request: Any, handler: Any) -> Any:
        return await inside(request, handler)

    class Inner(WrapsModel):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            seen.append(marker.get())
            return handler(request)

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            seen.append(marker.get())
            return await handler(request)

    marker.set("set by the caller")
    hook = kind(inside if kind is SyncModel else ainside)
    graph, _ = agent(fold([hook, Inner()]))
    await run(graph, side)
    assert seen == ["set by the caller", "set by the hook"]


async def test_a_synchronous_hook_of_an_async_run_leaves_the_event_loop_free() -> None:
    ticked = threading.Event()

    def inside(request: Any, handler: Any) -> Any:
        assert ticked.wait(60)
        return handler(request)

    graph, _ = agent(fold([SyncModel(inside)]))
    running = asyncio.create_task(run(graph, "async"))
    asyncio.get_running_loop().call_later(0.01, ticked.set)
    assert texts((await running)["messages"]) == ["hello", "done"]


async def test_handlers_of_a_synchronous_hook_run_on_the_loop_of_the_run() -> None:
    loops: list[Any] = []

    class Inner(AgentMiddleware):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            loops.append(asyncio.get_running_loop())
            return await handler(request)

    graph, _ = agent(fold([SyncModel(), Inner()]))
    await run(graph, "async")
    assert loops == [asyncio.get_running_loop()]


async def test_cancelling_the_run_reaches_model_and_hook_behind_a_synchronous_hook() -> None:
    entered, seen = asyncio.Event(), []

    class Slow(AgentMiddleware):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            entered.set()
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                seen.append("handler")
                raise

    done = threading.Event()

    def inside(request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except asyncio.CancelledError:
            seen.append("hook")
            raise
        finally:
            done.set()

    graph, _ = agent(fold([SyncModel(inside), Slow()]))
    running = asyncio.create_task(run(graph, "async"))
    await asyncio.wait_for(entered.wait(), 60)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await asyncio.to_thread(done.wait, 60)
    assert seen == ["handler", "hook"]


async def test_a_hook_that_outlives_its_cancelled_run_cannot_call_the_model() -> None:
    entered, go_on, outcome = threading.Event(), threading.Event(), []

    def inside(request: Any, handler: Any) -> Any:
        entered.set()
        go_on.wait(60)
        try:
            return handler(request)
        except BaseException as error:
            outcome.append(type(error))
            raise
        finally:
            ended.set()

    ended = threading.Event()
    graph, model = agent(fold([SyncModel(inside)]))
    running = asyncio.create_task(run(graph, "async"))
    assert await asyncio.to_thread(entered.wait, 60)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    go_on.set()
    assert await asyncio.to_thread(ended.wait, 60)
    assert outcome == [asyncio.CancelledError]
    assert model.seen == []


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", [SyncModel, AsyncModel])
async def test_an_interrupt_in_a_single_sided_hook_is_asked_and_answered(side: str, kind: Any) -> None:
    answers: list[Any] = []

    def inside(request: Any, handler: Any) -> Any:
        answers.append(interrupt("go on?"))
        return handler(request)

    async def ainside(request: Any, handler: Any) -> Any:
        return await inside(request, handler)

    hook = kind(inside if kind is SyncModel else ainside)
    graph, model = agent(fold([hook]), checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    state = await run(graph, side, config=config)
    assert [i.value for i in state["__interrupt__"]] == ["go on?"]
    assert model.seen == []
    state = await run(graph, side, Command(resume="yes"), config)
    assert answers == ["yes"]
    assert texts(state["messages"]) == ["hello", "done"]


class Traces(Client):
    """Keeps the names of spans instead of sending them."""

    def __init__(self) -> None:
        super().__init__(api_key="none", api_url="http://127.0.0.1:1", auto_batch_tracing=False)
        self.spans: dict[str, Any] = {}

    def create_run(self, name: str, inputs: Any, *args: Any, **kwargs: Any) -> None:
        self.spans[name] = inputs

    def update_run(self, *args: Any, **kwargs: Any) -> None:
        pass


@pytest.mark.parametrize("side", SIDES)
async def test_folded_hooks_work_while_tracing_and_their_span_holds_no_payload(side: str) -> None:
    client = Traces()
    graph, _ = agent(fold([WrapsModel(), WrapsTool()]), AIMessage("done"))
    with tracing_context(enabled=True, client=client):
        state = await run(graph, side)
    assert texts(state["messages"]) == ["hello", "done"]
    span = "WrapHooks.awrap_model_call" if side == "async" else "WrapHooks.wrap_model_call"
    assert client.spans[span] == {}
