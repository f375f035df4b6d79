"""The middleware that sees each tool call as the model does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from deerflow_extension_api import (
    AgentBuildContext,
    ExtensionData,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
    task_store_from_runtime,
)
from langchain.agents.middleware import AgentMiddleware, ToolCallRequest

from tool_call_counter.counts import TaskToolCalls


class CountToolCalls(AgentMiddleware[Any, Any]):
    """Counts each call before it is made, so that a failing tool counts as well."""

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        _count(request)
        return handler(request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        _count(request)
        return await handler(request)


class CountingMiddlewares(MiddlewareContributor):
    """Contributes the counter to the lead and to every subagent."""

    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        return (MiddlewarePlacement(CountToolCalls(), Placement.TOOL_VISIBLE),)


def _count(request: ToolCallRequest) -> None:
    task_store = task_store_from_runtime(request.runtime)
    if task_store is not None:
        task_store.get_or_init(TaskToolCalls, TaskToolCalls).count(request.tool_call["name"])
