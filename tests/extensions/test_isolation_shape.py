"""What a wrapper shows of the middleware in it, and which middlewares cannot be wrapped."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from deerflow_extension_api import collect_release_policies
from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
from langchain.agents.middleware.types import TracePolicy
from langchain_core.tools import tool
from support.agents import agent, calls, run, says, texts
from support.isolated import SOURCE, Reports, wrappers

from deerflow.extensions.contributed import RejectedMiddlewareError

SIDES = [
    f"{side}{hook}"
    for hook in (
        "before_agent",
        "before_model",
        "after_model",
        "after_agent",
        "wrap_model_call",
        "wrap_tool_call",
    )
    for side in ("", "a")
]


class Notes(AgentState[Any]):
    notes: Annotated[list[str], operator.add]


@tool
def greet(name: str = "") -> str:
    """Greet."""
    return f"hello {name}"


def visible(middleware: AgentMiddleware) -> set[str]:
    kind = type(middleware)
    return {side for side in SIDES if getattr(kind, side) is not getattr(AgentMiddleware, side)}


def wrap(middleware: AgentMiddleware) -> Any:
    [wrapper] = wrappers(middleware, reports=Reports())
    return wrapper


@pytest.mark.parametrize("side", SIDES)
def test_exactly_the_hooks_of_the_middleware_are_visible_with_both_sides(side: str) -> None:
    inner = type("One", (AgentMiddleware,), {side: lambda *args: None})()
    hook = side[1:] if side[1:] in SIDES else side
    assert visible(wrap(inner)) == {hook, f"a{hook}"}


def test_a_middleware_without_hooks_has_none() -> None:
    assert visible(wrap(AgentMiddleware())) == set()


def test_a_hook_on_the_instance_alone_does_not_count() -> None:
    inner = AgentMiddleware()
    inner.before_model = lambda state, runtime: None  # type: ignore[method-assign]
    assert visible(wrap(inner)) == set()


def test_inherited_hooks_count() -> None:
    class Base(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> Any:
            return None

    assert visible(wrap(type("Derived", (Base,), {})())) == {"before_model", "abefore_model"}


def test_tools_state_transformers_jumps_and_trace_policy_are_shown() -> None:
    def transformer(scope: Any) -> Any:
        return None

    class Rich(AgentMiddleware):
        tools = (greet,)
        state_schema = Notes
        transformers = (transformer,)
        trace_policy = TracePolicy()

        @hook_config(can_jump_to=["end", "tools"])
        def before_model(self, state: Any, runtime: Any) -> Any:
            return None

        @hook_config(can_jump_to=["model"])
        async def aafter_model(self, state: Any, runtime: Any) -> Any:
            return None

    inner = Rich()
    wrapper = wrap(inner)
    assert list(wrapper.tools) == [greet]
    assert wrapper.state_schema is Notes
    assert list(wrapper.transformers) == [transformer]
    assert wrapper.trace_policy is inner.trace_policy
    assert type(wrapper).before_model.__can_jump_to__ == ["end", "tools"]
    assert type(wrapper).after_model.__can_jump_to__ == ["model"]


def test_name_source_and_inner_are_known() -> None:
    inner = AgentMiddleware()
    wrapper = wrap(inner)
    assert (wrapper.name, wrapper.source, wrapper.inner) == ("ext_0", SOURCE, inner)


def test_wrappers_of_the_same_shape_share_a_class() -> None:
    class A(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> Any:
            return None

    class B(A):
        pass

    assert type(wrap(A())) is type(wrap(B()))
    assert type(wrap(A())) is not type(wrap(AgentMiddleware()))


def test_release_policies_are_those_of_the_middleware_itself() -> None:
    class Declaring(AgentMiddleware):
        def release_policy_parameters(self) -> dict[str, Any]:
            return {"limit": 3}

    assert collect_release_policies([wrap(Declaring())]) == {"Declaring": {"limit": 3}}


async def test_a_contributed_tool_can_be_called() -> None:
    class WithTools(AgentMiddleware):
        tools = (greet,)

    graph, _ = agent([wrap(WithTools())], calls("greet", name="ada"), says("done"))
    assert texts((await run(graph, "async"))["messages"])[2] == "hello ada"


def test_a_plain_function_becomes_a_tool() -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    class WithFunction(AgentMiddleware):
        tools = (add,)  # type: ignore[assignment]

    assert [made.name for made in wrap(WithFunction()).tools] == ["add"]


def undocumented(a: int) -> int:
    return a


class Unreadable:
    def __get__(self, instance: Any, owner: Any) -> Any:
        raise ValueError("no reading")


def forward() -> type:
    class Forward(AgentState[Any]):
        field: "NoSuchType"  # type: ignore[name-defined]  # noqa: F821, UP037

    return Forward


@pytest.mark.parametrize(
    ("attribute", "value", "problem"),
    [
        ("tools", 5, "its tools are int, expected a list of tools"),
        ("tools", "greet", "its tools are str, expected a list of tools"),
        ("tools", [5], "its tools hold int, expected tools or functions"),
        ("tools", [{"name": "x"}], "its tools hold dict, expected tools or functions"),
        ("tools", [type(greet)], "its tools hold ModelMetaclass, expected tools or functions"),
        ("tools", [undocumented], "no tool can be made of its function: "),
        ("tools", Unreadable(), "its tools cannot be read: no reading"),
        ("state_schema", 5, "its state_schema is int, expected a TypedDict class"),
        ("state_schema", None, "its state_schema is NoneType, expected a TypedDict class"),
        ("state_schema", forward(), "its state_schema cannot be read: "),
        ("state_schema", Unreadable(), "its state_schema cannot be read: no reading"),
        ("transformers", 5, "its transformers are int, expected a list of factories"),
        ("transformers", [5], "its transformers are list, expected a list of factories"),
        ("trace_policy", "off", "its trace_policy is str, expected a TracePolicy or None"),
        ("before_model", Unreadable(), "its before_model cannot be read: no reading"),
    ],
)
def test_what_no_agent_can_be_built_with_is_refused(attribute: str, value: Any, problem: str) -> None:
    inner = type("Bad", (AgentMiddleware,), {attribute: value})()
    with pytest.raises(RejectedMiddlewareError) as refused:
        wrap(inner)
    assert str(refused.value).startswith(problem)


@pytest.mark.parametrize(("declared", "shown"), [(["end", "nowhere", 5], ["end"]), (("model",), ["model"])])
def test_only_jumps_that_exist_are_shown(declared: Any, shown: list[str]) -> None:
    def before_model(self: Any, state: Any, runtime: Any) -> Any:
        return None

    before_model.__can_jump_to__ = declared  # type: ignore[attr-defined]
    wrapper = wrap(type("Jumping", (AgentMiddleware,), {"before_model": before_model})())
    assert type(wrapper).before_model.__can_jump_to__ == shown


def test_jumps_that_are_no_list_are_refused() -> None:
    def before_model(self: Any, state: Any, runtime: Any) -> Any:
        return None

    before_model.__can_jump_to__ = 5  # type: ignore[attr-defined]
    with pytest.raises(RejectedMiddlewareError, match="can_jump_to of before_model is int"):
        wrap(type("Jumping", (AgentMiddleware,), {"before_model": before_model})())


@pytest.mark.parametrize("side", ["sync", "async"])
async def test_wrappers_work_in_an_agent_that_is_not_folded(side: str) -> None:
    seen: list[str] = []

    class Watching(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> Any:
            seen.append("before")

        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            seen.append("model")
            return handler(request)

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            seen.append("tool")
            return await handler(request)

    graph, _ = agent([wrap(Watching())], calls("greet", name="ada"), says("done"), tools=[greet])
    assert texts((await run(graph, side))["messages"]) == ["hello", "", "hello ada", "done"]
    assert seen == ["before", "model", *(["tool"] if side == "async" else []), "before", "model"]
