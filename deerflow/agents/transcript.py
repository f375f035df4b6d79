"""Keep what goes to and comes from a model well-formed, whatever a model or a cancelled turn left behind.

Providers refuse a request whose tool calls lack results, whose results lack calls, or that has a system
message in mid-history. The stored conversation is left as it is; only the request is put right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, SystemMessage, ToolMessage

UNFINISHED = "This tool call was stopped before it had a result."
UNREADABLE = "This tool call could not be read: its arguments are not valid JSON. Send it again, corrected."
WITHHELD = "The model's answer was withheld by its provider's safety filter."

_SAFETY_STOPS = frozenset({"content_filter", "safety", "recitation", "blocklist", "prohibited_content"})


def well_formed(
    system: SystemMessage | None, messages: Sequence[AnyMessage]
) -> tuple[SystemMessage | None, list[AnyMessage]]:
    """One leading system message, and each tool call with one result right after it."""
    if not any(_needs_care(message) for message in messages):
        return system, list(messages)
    strays = [message for message in messages if isinstance(message, SystemMessage)]
    rest: list[AnyMessage] = [message for message in messages if not isinstance(message, SystemMessage)]
    return _merged_system(system, strays), _paired(rest)


def repaired(answer: AIMessage) -> AIMessage:
    """The answer with distinct tool-call ids, and without the calls of an answer that was cut for safety."""
    if _stopped_for_safety(answer):
        return answer.model_copy(
            update={
                "content": answer.text or WITHHELD,
                "tool_calls": [],
                "invalid_tool_calls": [],
                "additional_kwargs": {k: v for k, v in answer.additional_kwargs.items() if k != "tool_calls"},
            }
        )
    calls = [*answer.tool_calls, *answer.invalid_tool_calls]
    ids = [call.get("id") for call in calls]
    if all(ids) and len(set(ids)) == len(ids):
        return answer
    return _with_distinct_ids(answer)


def _needs_care(message: BaseMessage) -> bool:
    if isinstance(message, AIMessage):
        return bool(message.tool_calls or message.invalid_tool_calls)
    return isinstance(message, SystemMessage | ToolMessage)


def _merged_system(system: SystemMessage | None, strays: list[SystemMessage]) -> SystemMessage | None:
    if not strays:
        return system
    parts = [*([system] if system is not None else []), *strays]
    marks = system.additional_kwargs if system is not None else {}
    return SystemMessage("\n\n".join(part.text for part in parts if part.text), additional_kwargs=marks)


def _paired(messages: list[AnyMessage]) -> list[AnyMessage]:
    result: list[AnyMessage] = []
    position = 0
    while position < len(messages):
        message = messages[position]
        position += 1
        if isinstance(message, ToolMessage):
            continue  # a result whose call is gone; those with a call are taken below
        result.append(message)
        if not isinstance(message, AIMessage) or not (message.tool_calls or message.invalid_tool_calls):
            continue
        end = position
        while end < len(messages) and not isinstance(messages[end], AIMessage):
            end += 1
        window = messages[position:end]
        result.extend(_results_for(message, [m for m in window if isinstance(m, ToolMessage)]))
        result.extend(m for m in window if not isinstance(m, ToolMessage))
        position = end
    return result


def _results_for(message: AIMessage, results: list[ToolMessage]) -> list[ToolMessage]:
    by_id: dict[str, ToolMessage] = {}
    for tool_message in results:
        by_id.setdefault(tool_message.tool_call_id, tool_message)
    unreadable = {call.get("id") for call in message.invalid_tool_calls}
    paired = []
    for call in [*message.tool_calls, *message.invalid_tool_calls]:
        call_id = str(call.get("id") or "")
        missing = UNREADABLE if call.get("id") in unreadable else UNFINISHED
        paired.append(
            by_id.get(call_id)
            or ToolMessage(missing, tool_call_id=call_id, name=call.get("name") or "unknown", status="error")
        )
    return paired


def _stopped_for_safety(answer: AIMessage) -> bool:
    reason = answer.response_metadata.get("finish_reason") or answer.response_metadata.get("stop_reason")
    return isinstance(reason, str) and reason.lower() in _SAFETY_STOPS


def _with_distinct_ids(answer: AIMessage) -> AIMessage:
    seen: set[str] = set()

    def renamed(calls: Sequence[Any]) -> list[Any]:
        fixed = []
        for call in calls:
            call_id = call.get("id")
            if not call_id or call_id in seen:
                call_id = f"call_{uuid4().hex}"
            seen.add(call_id)
            fixed.append({**call, "id": call_id})
        return fixed

    update: dict[str, Any] = {"tool_calls": renamed(answer.tool_calls)}
    update["invalid_tool_calls"] = renamed(answer.invalid_tool_calls)
    # Provider forms of the same calls would bring the old ids back into the next request.
    update["additional_kwargs"] = {k: v for k, v in answer.additional_kwargs.items() if k != "tool_calls"}
    if isinstance(answer.content, list):
        update["content"] = [
            block
            for block in answer.content
            if not (isinstance(block, dict) and block.get("type") in {"tool_use", "tool_call"})
        ]
    return answer.model_copy(update=update)
