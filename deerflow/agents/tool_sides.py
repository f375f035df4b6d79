"""Tools that know only the async side, made to work on both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache, wraps
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool, Tool

from deerflow.loop_thread import LoopThread


def both_sided(tool: BaseTool) -> BaseTool:
    """The tool itself, or a copy that can be called synchronously too."""
    if isinstance(tool, StructuredTool | Tool) and tool.func is None and tool.coroutine is not None:
        return tool.model_copy(update={"func": synchronous(tool.coroutine)})
    return tool


def synchronous(function: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    """The same function for callers that block, with their context variables."""

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        return _side_loop().call(_awaited(function, arguments, named))

    return call


async def _awaited(
    function: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    return await function(*arguments, **named)


@cache
def _side_loop() -> LoopThread:
    # One for all calls of a process: what a tool or model keeps open belongs to the loop that opened it.
    return LoopThread("deerflow synchronous calls")
