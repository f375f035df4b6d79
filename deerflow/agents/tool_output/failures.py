"""A tool that fails is news for the model, not the end of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import ToolCallRequest, ToolErrorMiddleware
from langchain_core.messages import ToolMessage
from langgraph.errors import is_invalid_resume
from langgraph.types import Command

from deerflow.agents.text import shortened, valid_text
from deerflow.extensions.cancellation import must_propagate

MAX_FAILURE_CHARACTERS = 2000

ToolResult = ToolMessage | Command[Any]


class ToolFailures(ToolErrorMiddleware):
    """Turns what a tool raises into a result `<tool> failed: <type>: <text>` with status `error`.

    Interrupts, answers that do not fit their interrupt, and cancellation of the run go through; a
    `CancelledError` that the tool raised by itself is a failure like any other. Unknown tools and invalid
    arguments never get here: LangGraph's tool node answers them as results with status `error`.
    """

    def __init__(self) -> None:
        super().__init__(_failure_text)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolResult]
    ) -> ToolResult:
        """Call the tool; what it raises becomes a result."""
        try:
            return super().wrap_tool_call(request, handler)
        except asyncio.CancelledError as error:
            return _result_of(error, request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Call the tool; what it raises becomes a result."""
        try:
            return await super().awrap_tool_call(request, handler)
        except asyncio.CancelledError as error:
            return _result_of(error, request)


def _result_of(error: asyncio.CancelledError, request: ToolCallRequest) -> ToolMessage:
    if must_propagate(error):
        raise error
    return ToolMessage(
        _text(error, request),
        name=request.tool_call["name"],
        tool_call_id=request.tool_call["id"],
        status="error",
    )


def _failure_text(error: Exception, request: ToolCallRequest) -> str | None:
    """Return None, which lets the error go on, for what no model can put right."""
    return None if is_invalid_resume(error) else _text(error, request)


def _text(error: BaseException, request: ToolCallRequest) -> str:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]  # a task group's own words say nothing
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - the error of a tool may be anything, its text too
        said = "(its text cannot be shown)"
    text = f"{request.tool_call['name']} failed: {type(error).__name__}" + (f": {said}" if said else "")
    return shortened(valid_text(text), MAX_FAILURE_CHARACTERS)
