"""Tools that know only one side, made to work on both: synchronous ones never on the event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForToolRun
from langchain_core.tools import BaseTool, StructuredTool, Tool

from deerflow.agents.tool_threads import contained, in_tool_thread
from deerflow.loop_thread import side_loop


def both_sided(tool: BaseTool) -> BaseTool:
    """A copy that has both sides, and whose awaited side ends nothing but its call."""
    if isinstance(tool, StructuredTool | Tool):
        if tool.coroutine is not None:
            func = tool.func or synchronous(tool.coroutine)
            return tool.model_copy(update={"func": func, "coroutine": _contained(tool.coroutine)})
        if tool.func is not None:
            return tool.model_copy(update={"coroutine": _threaded(tool.func)})
        return tool
    twin = tool.model_copy()
    has_awaited_side = type(tool)._arun is not BaseTool._arun
    # Found before the method of the class, which would take one of the loop's own few threads.
    object.__setattr__(twin, "_arun", _contained(twin._arun) if has_awaited_side else _threaded_method(twin))
    return twin


def synchronous(function: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    """The same function for callers that block, with their context variables."""

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        return side_loop().call(_awaited(function, arguments, named))

    return call


def _contained(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """The same function; LangChain runs it in a task of its own, where an exit would end the event loop."""

    @wraps(function)
    async def call(*arguments: Any, **named: Any) -> Any:
        try:
            return await function(*arguments, **named)
        except BaseException as error:
            if (raised := contained(error)) is error:
                raise
            raise raised from error

    return call


def _threaded(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    @wraps(function)
    async def call(*arguments: Any, **named: Any) -> Any:
        return await in_tool_thread(partial(function, *arguments, **named))

    return call


def _threaded_method(tool: BaseTool) -> Callable[..., Awaitable[Any]]:
    async def call(*arguments: Any, **named: Any) -> Any:
        if isinstance(manager := named.get("run_manager"), AsyncCallbackManagerForToolRun):
            named["run_manager"] = manager.get_sync()
        return await in_tool_thread(partial(tool._run, *arguments, **named))

    return call


async def _awaited(
    function: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    return await function(*arguments, **named)
