"""Folded, a stack does what it does when LangChain composes it: random stacks, both sides, interrupts."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
from langchain.agents.middleware.types import ExtendedModelResponse, ModelResponse
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from support.agents import agent, calls, run, says, shape

from deerflow.agents.fold import fold

Log = list[Any]


class Notes(AgentState[Any]):
    notes: Annotated[list[str], operator.add]


@tool
def echo(word: str = "") -> str:
    """Say it back."""
    return f"echo {word}"


@tool
def fail(word: str = "") -> str:
    """Fail."""
    raise ValueError("the tool failed")


def note(name: str) -> Command[Any]:
    return Command(update={"notes": [name]})


def seen(request: Any) -> list[Any]:
    return [m.content for m in request.messages] + [request.system_message and request.system_message.content]


class Recorded(AgentMiddleware):
    """Has the hooks of its subclass, and a log of what they saw."""

    def __init__(self, number: int, log: Log) -> None:
        self.number = number
        self.log = log
        self.jumped = False

    @property
    def name(self) -> str:
        return f"m{self.number}"

    def says(self, *what: Any) -> None:
        self.log.append((self.name, *what))


# Each behaviour is a generator: it yields requests for the handler, gets results or errors, returns its own.
def model_pass(self: Recorded, request: Any) -> Any:
    return (yield request)


def model_override(self: Recorded, request: Any) -> Any:
    messages = [*request.messages, HumanMessage(f"from {self.name}")]
    return (yield request.override(messages=messages, model_settings={"n": self.number}))


def model_replace(self: Recorded, request: Any) -> Any:
    yield request
    return AIMessage(f"{self.name} instead")


def model_rewrite(self: Recorded, request: Any) -> Any:
    response = yield request
    return ModelResponse(result=[*response.result, AIMessage(f"{self.name} too")])


def model_short(self: Recorded, request: Any) -> Any:
    return ModelResponse(result=[AIMessage(f"{self.name} alone")])
    yield


def model_twice(self: Recorded, request: Any) -> Any:
    yield request
    return (yield request)


def model_retry(self: Recorded, request: Any) -> Any:
    try:
        return (yield request)
    except ValueError:
        return (yield request)


def model_raise_before(self: Recorded, request: Any) -> Any:
    raise ValueError(f"{self.name} before")
    yield


def model_raise_after(self: Recorded, request: Any) -> Any:
    yield request
    raise ValueError(f"{self.name} after")


def model_swallow(self: Recorded, request: Any) -> Any:
    try:
        return (yield request)
    except ValueError as error:
        return AIMessage(f"{self.name} caught {error}")


def model_command(self: Recorded, request: Any) -> Any:
    return ExtendedModelResponse(model_response=(yield request), command=note(self.name))


def model_pairs(self: Recorded, request: Any) -> Any:
    pairs = [("notes", [self.name]), ("notes", [f"{self.name} again"])]
    return ExtendedModelResponse(model_response=(yield request), command=Command(update=pairs))


def model_no_command(self: Recorded, request: Any) -> Any:
    return ExtendedModelResponse(model_response=(yield request))


def model_goto(self: Recorded, request: Any) -> Any:
    return ExtendedModelResponse(model_response=(yield request), command=Command(goto="end"))


def model_interrupt(self: Recorded, request: Any) -> Any:
    self.says("answered", interrupt(f"{self.name} before the model"))
    return (yield request)


def model_wrong(self: Recorded, request: Any) -> Any:
    yield request
    return None


def tool_pass(self: Recorded, request: Any) -> Any:
    return (yield request)


def tool_override(self: Recorded, request: Any) -> Any:
    return (yield request.override(tool_call={**request.tool_call, "args": {"word": self.name}}))


def tool_replace(self: Recorded, request: Any) -> Any:
    result = yield request
    return ToolMessage(f"{self.name}: {result.content}", tool_call_id=request.tool_call["id"])


def tool_short(self: Recorded, request: Any) -> Any:
    return ToolMessage(f"{self.name} alone", tool_call_id=request.tool_call["id"])
    yield


def tool_twice(self: Recorded, request: Any) -> Any:
    yield request
    return (yield request)


def tool_raise_before(self: Recorded, request: Any) -> Any:
    raise ValueError(f"{self.name} before")
    yield


def tool_raise_after(self: Recorded, request: Any) -> Any:
    yield request
    raise ValueError(f"{self.name} after")


def tool_swallow(self: Recorded, request: Any) -> Any:
    try:
        return (yield request)
    except ValueError as error:
        return ToolMessage(f"{self.name} caught {error}", tool_call_id=request.tool_call["id"])


def tool_command(self: Recorded, request: Any) -> Any:
    yield request
    message = ToolMessage(f"{self.name} commands", tool_call_id=request.tool_call["id"])
    return Command(update={"messages": [message], "notes": [self.name]})


def tool_interrupt(self: Recorded, request: Any) -> Any:
    self.says(request.tool_call["id"], "answered", interrupt(f"{self.name} before {request.tool_call['id']}"))
    return (yield request)


def node_update(self: Recorded, where: str, state: Any) -> Any:
    return {"notes": [f"{self.name} {where}"]}


def node_message(self: Recorded, where: str, state: Any) -> Any:
    return {"messages": [HumanMessage(f"{self.name} {where}")]}


def node_jump(self: Recorded, where: str, state: Any) -> Any:
    if self.jumped:
        return None
    self.jumped = True
    return {"jump_to": "end" if where in ("before_model", "after_model") else "model"}


def node_raise(self: Recorded, where: str, state: Any) -> Any:
    raise ValueError(f"{self.name} {where}")


def node_interrupt(self: Recorded, where: str, state: Any) -> Any:
    return {"notes": [f"{self.name} {interrupt(f'{self.name} {where}')}"]}


MODEL = [f for name, f in sorted(globals().items()) if name.startswith("model_")]
TOOL = [f for name, f in sorted(globals().items()) if name.startswith("tool_")]
NODE = [f for name, f in sorted(globals().items()) if name.startswith("node_")]
WHERE = ["before_agent", "before_model", "after_model", "after_agent"]


def _key(request: Any) -> str:
    return request.tool_call["id"] if hasattr(request, "tool_call") else "model"


def _view(request: Any) -> Any:
    return dict(request.tool_call["args"]) if hasattr(request, "tool_call") else seen(request)


def _result(result: Any) -> Any:
    return shape(result.result) if isinstance(result, ModelResponse) else type(result).__name__


class Telling:
    """One pass through a behaviour, between which the handler is called; says what the hook sees."""

    def __init__(self, hook: Recorded, request: Any, behave: Callable[..., Any]) -> None:
        self.hook, self.key = hook, _key(request)
        self.story = behave(hook, request)
        self.move: Callable[[], Any] = lambda: next(self.story)
        self.asked: Any = None
        self.value: Any = None
        hook.says(self.key, "enters", _view(request))

    def goes_on(self) -> bool:
        try:
            self.asked = self.move()
        except StopIteration as end:
            self.hook.says(self.key, "returns")
            self.value = end.value
            return False
        return True

    def take(self, result: Any) -> None:
        self.hook.says(self.key, "gets", _result(result))
        self.move = lambda: self.story.send(result)

    def fail(self, error: ValueError) -> None:
        self.hook.says(self.key, "sees", str(error))
        self.move = lambda: self.story.throw(error)


def wrap_pair(behave: Callable[..., Any]) -> tuple[Any, Any]:
    """Both sides of a wrap hook that follows a behaviour."""

    def wrap(self: Recorded, request: Any, handler: Any) -> Any:
        telling = Telling(self, request, behave)
        while telling.goes_on():
            try:
                telling.take(handler(telling.asked))
            except ValueError as error:
                telling.fail(error)
        return telling.value

    async def awrap(self: Recorded, request: Any, handler: Any) -> Any:
        telling = Telling(self, request, behave)
        while telling.goes_on():
            try:
                telling.take(await handler(telling.asked))
            except ValueError as error:
                telling.fail(error)
        return telling.value

    return wrap, awrap


def node_pair(where: str, behave: Callable[..., Any]) -> tuple[Any, Any]:
    @hook_config(can_jump_to=["end", "model"])
    def hook(self: Recorded, state: Any, runtime: Any) -> Any:
        self.says("node", where, len(state["messages"]))
        return behave(self, where, state)

    @hook_config(can_jump_to=["end", "model"])
    async def ahook(self: Recorded, state: Any, runtime: Any) -> Any:
        return hook(self, state, runtime)

    return hook, ahook


COMMANDS = [
    model_command,
    model_pairs,
    model_twice,
    model_retry,
    model_pass,
    model_swallow,
    model_raise_after,
]


def drawn(**namespace: Any) -> type[Recorded]:
    return type("Drawn", (Recorded,), namespace)


def with_model(behave: Callable[..., Any]) -> type[Recorded]:
    wrap, awrap = wrap_pair(behave)
    return drawn(wrap_model_call=wrap, awrap_model_call=awrap)


def with_tool(behave: Callable[..., Any]) -> type[Recorded]:
    wrap, awrap = wrap_pair(behave)
    return drawn(wrap_tool_call=wrap, awrap_tool_call=awrap)


@st.composite
def anything(draw: st.DrawFn) -> type[Recorded]:
    namespace: dict[str, Any] = {}
    if draw(st.booleans()):
        namespace["wrap_model_call"], namespace["awrap_model_call"] = wrap_pair(draw(st.sampled_from(MODEL)))
    if draw(st.booleans()):
        namespace["wrap_tool_call"], namespace["awrap_tool_call"] = wrap_pair(draw(st.sampled_from(TOOL)))
    for where in draw(st.lists(st.sampled_from(WHERE), max_size=1)):
        namespace[where], namespace[f"a{where}"] = node_pair(where, draw(st.sampled_from(NODE)))
    if draw(st.booleans()):
        namespace["state_schema"] = Notes
    if draw(st.integers(0, 3)) == 0:
        namespace["tools"] = [fail]
    return drawn(**namespace)


stacks = st.one_of(
    st.lists(anything(), min_size=1, max_size=4),
    st.lists(st.sampled_from(COMMANDS).map(with_model), min_size=2, max_size=5),
    st.lists(st.sampled_from(MODEL).map(with_model), min_size=2, max_size=5),
    st.lists(st.sampled_from(TOOL).map(with_tool), min_size=2, max_size=5),
)
turns = st.lists(
    st.one_of(
        st.just(says("hm")),
        st.lists(st.sampled_from(["echo", "echo", "fail", "unknown"]), min_size=1, max_size=3).map(
            lambda names: calls(*names, word="w")
        ),
        st.just(ValueError("the model failed")),
    ),
    min_size=1,
    max_size=3,
)


async def story(classes: list[type[Recorded]], script: list[Any], side: str, *, folded: bool) -> Any:
    """Run once, answering every interrupt; return all that can be seen of it."""
    log: Log = []
    stack = [cls(number, log) for number, cls in enumerate(classes)]
    graph, model = agent(
        fold(stack) if folded else stack,
        *script,
        says("done"),
        tools=[echo],
        checkpointer=InMemorySaver(),
        state_schema=Notes,
    )
    config = {"configurable": {"thread_id": "t"}, "recursion_limit": 60}
    asked: list[Any] = []
    given: Any = "hello"
    try:
        for _ in range(6):
            state = await run(graph, side, given, config)
            if "__interrupt__" not in state:
                break
            asked.append(sorted(i.value for i in state["__interrupt__"]))
            given = Command(resume={i.id: "yes" for i in state["__interrupt__"]})
    except Exception as error:
        return type(error), str(error), asked
    by_key: dict[str, Log] = {}
    for entry in log:
        by_key.setdefault(entry[1] if "-" in str(entry[1]) else "main", []).append(entry)
    return shape(state["messages"]), state.get("notes"), asked, by_key, [len(m) for m in model.seen]


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(classes=stacks, script=turns)
@pytest.mark.parametrize("side", ["sync", "async"])
def test_folded_stack_does_what_langchain_does(
    side: str, classes: list[type[Recorded]], script: list[Any]
) -> None:
    async def both() -> tuple[Any, Any]:
        return (
            await story(classes, script, side, folded=False),
            await story(classes, script, side, folded=True),
        )

    composed, folded = asyncio.run(both())
    assert folded == composed
