"""Spans of tool calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import ToolMessage

from deerflow.tracing import names
from deerflow.tracing.contents import arguments_json, result_text
from deerflow.tracing.interface import Attributes, Span, SpanStart


def tool_start(call: Mapping[str, Any], description: str | None, further: Attributes) -> SpanStart:
    """The beginning of a tool call, as LangChain has it: with `name`, `args` and `id`."""
    name = str(call.get("name") or "")
    attributes = {
        names.OPERATION: "execute_tool",
        names.TOOL_NAME: name,
        names.TOOL_TYPE: "function",
        names.TOOL_CALL_ID: call.get("id"),
        names.TOOL_DESCRIPTION: description or None,
    }
    return SpanStart(f"execute_tool {name}", {**attributes, **further})


def note_arguments(span: Span, call: Mapping[str, Any]) -> None:
    """Record what the tool is given."""
    if span.is_recorded:
        span.set({names.TOOL_ARGUMENTS: arguments_json(call.get("args"))})


def note_result(span: Span, result: Any, *, with_content: bool) -> None:
    """Let the span fail where the tool says that it failed; with `with_content`, record what it says."""
    if isinstance(result, ToolMessage) and result.status == "error":
        span.fail("tool_error", result.text if with_content else "")
    if with_content and span.is_recorded:
        span.set({names.TOOL_RESULT: result_text(result)})
