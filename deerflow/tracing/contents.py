"""Messages as spans bear them where contents are recorded: the JSON of OpenTelemetry's conventions.

https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

MOST_CHARACTERS: Final = 32_768
"""Of one text; what is longer is cut."""

_ROLES: Final = {"human": "user", "ai": "assistant", "tool": "tool"}


def messages_json(messages: Sequence[BaseMessage]) -> str:
    """All but the system's, in order."""
    return _json([_message(message) for message in messages if not isinstance(message, SystemMessage)])


def instructions_json(messages: Sequence[BaseMessage]) -> str | None:
    """The system's; None where there are none."""
    parts = [_said(message.text) for message in messages if isinstance(message, SystemMessage)]
    return _json(parts) if parts else None


def arguments_json(arguments: Any) -> str:
    """The arguments of a tool call."""
    return _cut(_json(arguments))


def result_text(result: Any) -> str:
    """What a tool came to."""
    return _cut(result.text if isinstance(result, ToolMessage) else type(result).__name__)


def _message(message: BaseMessage) -> Mapping[str, Any]:
    entry: dict[str, Any] = {"role": _ROLES.get(message.type, message.type), "parts": list(_parts(message))}
    if isinstance(message, AIMessage):
        told = message.response_metadata
        entry["finish_reason"] = str(told.get("finish_reason") or told.get("stop_reason") or "stop")
    return entry


def _parts(message: BaseMessage) -> Iterator[Mapping[str, Any]]:
    if isinstance(message, ToolMessage):
        yield {"type": "tool_call_response", "id": message.tool_call_id, "response": _cut(message.text)}
        return
    if message.text:
        yield _said(message.text)
    for call in message.tool_calls if isinstance(message, AIMessage) else ():
        arguments = arguments_json(call["args"])
        yield {"type": "tool_call", "id": call["id"], "name": call["name"], "arguments": arguments}


def _said(text: str) -> Mapping[str, Any]:
    return {"type": "text", "content": _cut(text)}


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."


def _json(value: Any) -> str:
    """Never fails: what has no JSON is told as its type."""
    try:
        return json.dumps(value, default=_named, ensure_ascii=False, skipkeys=True)
    except (TypeError, ValueError, RecursionError):
        return f"({_named(value)})"


def _named(value: Any) -> str:
    return f"a {type(value).__name__}"
