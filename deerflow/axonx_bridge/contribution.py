"""The tools on their way into agents: as those of a middleware without hooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deerflow_extension_api import (
    AgentBuildContext,
    AgentScope,
    ExtensionData,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
)
from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import BaseTool


class AxonxTools(AgentMiddleware[Any, Any]):
    """Brings tools."""

    def __init__(self, tools: Sequence[BaseTool]) -> None:
        super().__init__()
        self.tools = list(tools)

    def release_policy_parameters(self) -> dict[str, Any]:
        """The names of the tools."""
        return {"tools": [tool.name for tool in self.tools]}


class ToolContribution(MiddlewareContributor):
    """Contributes the tools to the agents of `scope`."""

    def __init__(self, tools: Sequence[BaseTool], scope: AgentScope) -> None:
        self._placement = MiddlewarePlacement(AxonxTools(tools), Placement.STANDARD, scope)

    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        return (self._placement,)
