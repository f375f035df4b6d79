"""The hooks of LangChain's middlewares, and how `create_agent` tells that a middleware has one."""

from __future__ import annotations

from typing import Any, Final

from langchain.agents.middleware.types import AgentMiddleware, AgentState

NODE_HOOKS: Final = ("before_agent", "before_model", "after_model", "after_agent")
WRAP_HOOKS: Final = ("wrap_model_call", "wrap_tool_call")
HOOK_OF_SIDE: Final = {side: hook for hook in (*NODE_HOOKS, *WRAP_HOOKS) for side in (hook, f"a{hook}")}
"""`before_model` for `before_model` and for `abefore_model`, and so on."""

PLAIN_SCHEMAS: Final = (AgentMiddleware().state_schema, AgentState)
"""State schemas that add nothing to an agent."""


def has_hook(middleware: AgentMiddleware[Any, Any], *hooks: str) -> bool:
    """Whether the class of `middleware` has either side of any of these hooks; instances do not count."""
    return any(has_side(middleware, side) for hook in hooks for side in (hook, f"a{hook}"))


def has_side(middleware: AgentMiddleware[Any, Any], side: str) -> bool:
    """Whether the class of `middleware` has this very hook, `before_model` or `abefore_model` say."""
    return getattr(type(middleware), side) is not getattr(AgentMiddleware, side)
