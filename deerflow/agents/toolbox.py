"""The tools of one agent: the host's, the operator's, and those that its middlewares bring."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import BaseTool
from langchain_core.tools import tool as make_tool

from deerflow.agents.file_tools.build import FILE_TOOLS
from deerflow.agents.guards import TODO_TOOL_NAME
from deerflow.agents.tool_owners import HOST, Complaint, OwnedTool, ToolOwner, one_per_name
from deerflow.agents.tool_sides import both_sided
from deerflow.config.guards import GuardsConfig
from deerflow.extensions.placement import Placements

TASK_TOOL_NAME = "task"


def host_names(guards: GuardsConfig) -> Mapping[str, ToolOwner]:
    """Names that are the host's in every agent, also in one that lacks the tool."""
    names = [*(tool.name for tool in FILE_TOOLS), TASK_TOOL_NAME]
    if guards.todo_list:
        names.append(TODO_TOOL_NAME)
    return dict.fromkeys(names, HOST)


@dataclass(frozen=True)
class Toolbox:
    """What an agent was planned with.

    `offered` are the tools of the host and the operator, `reserved` the names that are the host's, `allowed`
    those that the agent may use: None for all. What an extension or the application's own middlewares bring
    comes with them, and is not asked.
    """

    offered: Sequence[OwnedTool]
    reserved: Mapping[str, ToolOwner]
    allowed: tuple[str, ...] | None = None

    def with_brought(self, brought: Sequence[OwnedTool], complain: Complaint) -> list[OwnedTool]:
        """All tools of the agent, those of its middlewares last."""
        everything = one_per_name([*self.offered, *brought], complain, taken=self.reserved)
        return [owned for owned in everything if self._permits(owned) or owned in brought]

    def _permits(self, owned: OwnedTool) -> bool:
        return self.allowed is None or owned.name in self.allowed


def host_tools(tools: Sequence[BaseTool]) -> list[OwnedTool]:
    """The host's own."""
    return [OwnedTool(tool, HOST) for tool in tools]


def brought_tools(
    stack: Sequence[AgentMiddleware[Any, Any]],
    placements: Placements,
    application: Sequence[AgentMiddleware[Any, Any]],
) -> list[OwnedTool]:
    """The tools of a stack's middlewares, each with the extension or application that it came from."""

    def owner_of(middleware: AgentMiddleware[Any, Any]) -> ToolOwner:
        origin = placements.origin_of(middleware)
        if origin is not None:
            return ToolOwner(f"extension {origin.source}", origin.source, extension=origin.source)
        if any(own is middleware for own in application):
            return ToolOwner(f"middleware {middleware.name}", "application")
        return HOST

    # One tool that several middlewares bring stays one: its owner may offer it again.
    copies: dict[Hashable, BaseTool] = {}

    def copy_of(tool: Any) -> BaseTool:
        made = tool if isinstance(tool, BaseTool) else make_tool(tool)
        function = getattr(made, "func", None) or getattr(made, "coroutine", None) or made
        key = (made.name, made.description, id(function))
        if key not in copies:
            copies[key] = both_sided(made)
        return copies[key]

    return [
        OwnedTool(copy_of(tool), owner_of(middleware))
        for middleware in stack
        for tool in getattr(middleware, "tools", ())
    ]
