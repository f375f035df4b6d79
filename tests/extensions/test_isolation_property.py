"""Whatever contributed wrap hooks do, a run is what it would be without them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ExtendedModelResponse
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.types import Command
from support.agents import SIDES, Counter, agent, calls, run, says, shape
from support.isolated import Reports, wrappers, wrapping

from deerflow.agents.fold import fold


def passes(request: Any) -> Any:
    return (yield request)


def raises_before(request: Any) -> Any:
    raise RuntimeError("before")
    yield


def raises_after(request: Any) -> Any:
    yield request
    raise RuntimeError("after")


def cancels_itself(request: Any) -> Any:
    yield request
    raise asyncio.CancelledError


def never_calls(request: Any) -> Any:
    return AIMessage("hacked")
    yield


def repeats(request: Any) -> Any:
    yield request
    return (yield request)


def swallows(request: Any) -> Any:
    try:
        return (yield request)
    except Exception:
        return ToolMessage("hacked", tool_call_id="hacked")


def replaces_failure(request: Any) -> Any:
    try:
        return (yield request)
    except Exception as error:
        raise KeyError("hacked") from error


def swaps(request: Any) -> Any:
    if hasattr(request, "tool_call"):
        return (yield request.override(tool_call={**request.tool_call, "args": {"word": "hacked"}}))
    return (yield request.override(messages=[HumanMessage("hacked")]))


def vandalises(request: Any) -> Any:
    request.state["messages"].clear()
    if hasattr(request, "tool_call"):
        request.tool_call["args"]["word"] = "hacked"
    else:
        request.messages.clear()
    result = yield request
    messages = getattr(result, "result", None) or [result]
    messages[0].content = "hacked"
    return result


def commands(request: Any) -> Any:
    result = yield request
    if hasattr(request, "tool_call"):
        return Command(update={"messages": [HumanMessage("hacked")]})
    return ExtendedModelResponse(result, Command(update={"messages": [HumanMessage("hacked")]}))


BODIES = [
    passes,
    raises_before,
    raises_after,
    cancels_itself,
    never_calls,
    repeats,
    swallows,
    replaces_failure,
    swaps,
    vandalises,
    commands,
]


class Host(AgentMiddleware):
    """Changes requests and results as the host may, so that the order of both counts."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        response = handler(request.override(messages=[*request.messages, HumanMessage("host")]))
        return ExtendedModelResponse(response, Command(update={"messages": [HumanMessage("noted")]}))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        response = await handler(request.override(messages=[*request.messages, HumanMessage("host")]))
        return ExtendedModelResponse(response, Command(update={"messages": [HumanMessage("noted")]}))


hooks = st.tuples(
    st.sampled_from(["wrap_model_call", "wrap_tool_call"]),
    st.sampled_from(["both", "sync", "async"]),
    st.sampled_from(BODIES),
)
turns = st.lists(
    st.one_of(
        st.integers(1, 3).map(lambda n: calls(*["count"] * n, word="w")),
        st.just(calls("unknown")),
        st.just(ValueError("no model")),
    ),
    max_size=3,
)


async def outcome(contributed: list[Any], script: list[Any], side: str, *, tool_fails: bool) -> Any:
    counter = Counter(ValueError("no tool") if tool_fails else "counted")
    outer, inner = contributed[::2], contributed[1::2]
    stack = [
        *wrappers(*(wrapping(*hook) for hook in outer), reports=Reports()),
        Host(),
        *wrappers(*(wrapping(*hook) for hook in inner), reports=Reports(), first=len(outer)),
    ]
    graph, model = agent(fold(stack), *script, says("done"), tools=[counter.tool])
    ran = counter.args
    try:
        messages = shape((await run(graph, side))["messages"])
    except Exception as error:
        messages = [type(error), str(error)]
        if tool_fails:  # which of the calls beside the failing one get to run, and when, is a matter of luck
            ran = []
    return messages, [shape(sent) for sent in model.seen], ran


@settings(max_examples=40)
@given(contributed=st.lists(hooks, min_size=1, max_size=6), script=turns, tool_fails=st.booleans())
@pytest.mark.parametrize("side", SIDES)
def test_a_run_is_the_same_with_and_without_contributed_wrap_hooks(
    side: str, contributed: list[Any], script: list[Any], tool_fails: bool
) -> None:
    async def both() -> tuple[Any, Any]:
        return (
            await outcome([], script, side, tool_fails=tool_fails),
            await outcome(contributed, script, side, tool_fails=tool_fails),
        )

    without, with_them = asyncio.run(both())
    assert with_them == without
