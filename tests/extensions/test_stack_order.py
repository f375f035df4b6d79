"""What each placement promises holds for a composed stack, or no agent is built."""

from __future__ import annotations

from typing import Any

import pytest
from deerflow_extension_api import AgentBuildContext, AgentScope, MiddlewarePlacement, Placement
from langchain.agents.middleware import AgentMiddleware, ModelRetryMiddleware

from deerflow.errors import DeerFlowError
from deerflow.extensions import LoadedExtensions
from deerflow.extensions.placement import Placements, StackOrderError, check_stack_order, collect_placements


class Extension(AgentMiddleware):
    """Has every wrap hook."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request)

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request)


class HostModel(AgentMiddleware):
    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request)


class HostTool(AgentMiddleware):
    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


class HostNode(AgentMiddleware):
    def before_model(self, state: Any, runtime: Any) -> Any:
        return None


@pytest.fixture
def placed() -> Placements:
    class Contributor:
        def contribute_middlewares(self, app_store: Any, ctx: Any) -> Any:
            return [MiddlewarePlacement(Extension(), p, order=n) for p in Placement for n in range(2)]

    snapshot = LoadedExtensions(middleware_contributors=(("acme:install", Contributor()),))  # type: ignore[arg-type]
    return collect_placements(snapshot, AgentBuildContext(AgentScope.LEAD), hook_timeout_seconds=1)


HOST: dict[str, AgentMiddleware] = {"model": HostModel(), "tool": HostTool(), "node": HostNode()}
RETRY = ModelRetryMiddleware()
PROMISED = "tool_visible model_logical model tool node standard retry model_physical tool_raw node"


def composed(line: str, placed: Placements) -> list[AgentMiddleware]:
    stack: list[AgentMiddleware] = []
    for name in line.split():
        if name == "retry":
            stack.append(RETRY)
        elif name in HOST:
            stack.append(HOST[name])
        else:
            stack.extend(placed.at(Placement(name)))
    return stack


def test_the_promised_order_passes(placed: Placements) -> None:
    check_stack_order(composed(PROMISED, placed), placed, retry=RETRY)


@pytest.mark.parametrize(
    "line",
    [
        "model tool_visible tool model_logical retry standard model_physical tool_raw",
        "model_logical tool_visible node tool model standard retry node tool_raw model_physical",
    ],
)
def test_what_no_placement_promises_is_free(line: str, placed: Placements) -> None:
    check_stack_order(composed(line, placed), placed, retry=RETRY)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            "tool_visible model tool standard retry model_logical model_physical tool_raw",
            "at MODEL_LOGICAL, stands inside ModelRetryMiddleware; move the line of model_logical above it",
        ),
        (
            "tool_visible model_logical model tool standard model_physical retry tool_raw",
            "at MODEL_PHYSICAL, stands outside ModelRetryMiddleware; "
            "move the line of model_physical below it",
        ),
        (
            "tool_visible model_logical tool standard retry model_physical model tool_raw",
            "at MODEL_PHYSICAL, stands outside HostModel; move the line of model_physical below it",
        ),
        (
            "tool tool_visible model_logical model standard retry model_physical tool_raw",
            "at TOOL_VISIBLE, stands inside HostTool; move the line of tool_visible above it",
        ),
        (
            "tool_visible model_logical model standard retry model_physical tool_raw tool",
            "at TOOL_RAW, stands outside HostTool; move the line of tool_raw below it",
        ),
        (
            "tool_visible model_logical model retry model_physical tool_raw",
            "at STANDARD, is missing from the stack; give its placement a line",
        ),
    ],
)
def test_a_broken_promise_names_the_extension_and_the_edit(
    line: str, problem: str, placed: Placements
) -> None:
    with pytest.raises(StackOrderError) as broken:
        check_stack_order(composed(line, placed), placed, retry=RETRY)
    assert str(broken.value) == f"the agent was not built: Extension of extension acme:install, {problem}"
    assert isinstance(broken.value, DeerFlowError)


def test_the_order_within_a_placement_is_kept(placed: Placements) -> None:
    stack = composed(PROMISED, placed)
    stack[0], stack[1] = stack[1], stack[0]
    with pytest.raises(StackOrderError, match="at TOOL_VISIBLE, is out of its order"):
        check_stack_order(stack, placed, retry=RETRY)


def test_a_stack_without_retry_is_refused(placed: Placements) -> None:
    stack = composed(PROMISED.replace("retry", ""), placed)
    with pytest.raises(StackOrderError, match="no line for the retry"):
        check_stack_order(stack, placed, retry=RETRY)
