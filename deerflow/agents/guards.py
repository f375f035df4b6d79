"""LangChain's own guards, as the configuration asks for them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from langchain.agents.middleware import (
    AgentMiddleware,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
    ToolRetryMiddleware,
)
from langgraph.errors import is_invalid_resume

from deerflow.config.guards import GuardsConfig

Middleware = AgentMiddleware[Any, Any]

TODO_TOOL_NAME = "write_todos"


def tool_guards(config: GuardsConfig) -> list[Middleware]:
    """Limits of tool calls, and repetitions of those that failed, for every agent.

    They stand inside what a person approves: nobody is asked about a call that is refused, or asked twice.
    """
    return [*_limits(config), *_retry(config)]


def todo_list(config: GuardsConfig, allowed: Collection[str] | None) -> list[Middleware]:
    """The lead's to-do list, where its tools are not limited to others."""
    wanted = config.todo_list and (allowed is None or TODO_TOOL_NAME in allowed)
    return [TodoListMiddleware()] if wanted else []


def _limits(config: GuardsConfig) -> list[Middleware]:
    limits: list[Middleware] = [
        ToolCallLimitMiddleware(tool_name=name, run_limit=limit)
        for name, limit in config.max_calls_of_tool.items()
    ]
    if config.max_tool_calls is not None:
        limits.append(ToolCallLimitMiddleware(run_limit=config.max_tool_calls))
    return limits


def _retry(config: GuardsConfig) -> list[Middleware]:
    retry = config.tool_retry
    if not retry.tools or not retry.max_retries:
        return []
    return [
        ToolRetryMiddleware(
            tools=list(retry.tools),
            max_retries=retry.max_retries,
            initial_delay=retry.initial_delay_seconds,
            retry_on=lambda error: not is_invalid_resume(error),
            on_failure="error",
        )
    ]
