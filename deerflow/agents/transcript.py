"""Keep what goes to and comes from a model well-formed, whatever a model or a cancelled turn left behind.

Providers refuse a request whose tool calls lack results, whose results lack calls, or that has a system
message in mid-history. The stored conversation is left as it is; only the request is put right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from deerflow_extension_api import ContentKind, provenance_kwargs
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    BaseMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.messages.tool import invalid_tool_call
from pydantic import ValidationError

from deerflow.agents.text import quoted, valid_text
from deerflow.agents.tool_output.cutting import cleaned

UNFINISHED = "This tool call was stopped before it had a result."
UNREADABLE = (
    "This tool call could not be read: its arguments have to be a JSON object in UTF-8, with integers of "
    "64 bits and no deep nesting. Send it again, corrected."
)
WITHHELD = "The model's answer was withheld by its provider's safety filter."

GAVE_UP = "The model's tool calls could not be read, several times in a row; nothing more was done."

MOST_UNREADABLE = 3
"""Answers in a row that have none but unreadable calls, before the agent is stopped."""

MAX_ARGUMENT_DEPTH = 100

_MARKS = provenance_kwargs(ContentKind.MIDDLEWARE_INJECTION, "transcript_repair")

_UNREADABLE_KEY = "deerflow_unreadable"
_ANSWERS = frozenset({AIMessage.__name__, AIMessageChunk.__name__})
_CALL_BLOCKS = frozenset({"tool_use", "tool_call", "invalid_tool_call", "function_call"})
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


def repaired(answer: AIMessage, *, earlier: Sequence[AnyMessage] = ()) -> list[AIMessage | ToolMessage]:
    """The answer in a form that can be stored and sent again, and results for its calls that nobody can read.

    Calls have distinct ids, text is valid, and nothing is left of the calls of an answer that was cut for
    safety. Where the conversation before it, `earlier`, ends with such results `MOST_UNREADABLE` times, the
    answer asks for nothing more.
    """
    if _stopped_for_safety(answer):
        return [_without_calls(answer, WITHHELD)]
    answer = _with_distinct_ids(_with_storable_parts(answer))
    if not answer.invalid_tool_calls:
        return [answer]
    if not answer.tool_calls and _unreadable_so_far(earlier) >= MOST_UNREADABLE:
        return [_without_calls(answer, GAVE_UP)]
    return _with_calls_answered(answer)


def answer_in_place_of(error: Exception) -> AIMessage | None:
    """The unreadable calls of an answer that its client could not form; None for any other error.

    Clients raise where the arguments of a call are JSON, but no object. What stood beside it is lost with it.
    """
    if not isinstance(error, ValidationError) or error.title not in _ANSWERS:
        return None
    problems = error.errors(include_url=False, include_context=False)
    places = [problem["loc"] for problem in problems]
    if not all(len(place) >= 3 and (place[0], place[2]) == ("tool_calls", "args") for place in places):
        return None
    sent = [quoted(str(problem["input"])) for problem in problems]
    return AIMessage("", invalid_tool_calls=[invalid_tool_call(args=text) for text in sent])


def _needs_care(message: BaseMessage) -> bool:
    if isinstance(message, AIMessage):
        return bool(message.tool_calls or message.invalid_tool_calls or not message.content)
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
        has_calls = isinstance(message, AIMessage) and (message.tool_calls or message.invalid_tool_calls)
        if isinstance(message, AIMessage) and not has_calls and not message.content:
            continue  # an answer that says nothing, which some providers refuse to read again
        result.append(message)
        if not isinstance(message, AIMessage) or not has_calls:
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
        paired.append(by_id.get(call_id) or _result(missing, call_id, call.get("name") or "unknown"))
    return paired


def _stopped_for_safety(answer: AIMessage) -> bool:
    reason = answer.response_metadata.get("finish_reason") or answer.response_metadata.get("stop_reason")
    return isinstance(reason, str) and reason.lower() in _SAFETY_STOPS


def _without_calls(answer: AIMessage, notice: str) -> AIMessage:
    text = valid_text(answer.text)
    update = {**_without_provider_forms(answer), "content": text, "tool_calls": [], "invalid_tool_calls": []}
    if not text.strip():
        update |= {"content": notice, "additional_kwargs": {**update["additional_kwargs"], **_MARKS}}
    return answer.model_copy(update=update)


def _with_storable_parts(answer: AIMessage) -> AIMessage:
    """No half characters: in text they are replaced. A call that no checkpoint holds counts as unreadable."""
    update: dict[str, Any] = {}
    content = cleaned(answer.content)
    if content != answer.content:
        update["content"] = content
    broken = [call for call in answer.tool_calls if not _is_storable(call)]
    if broken:
        update["tool_calls"] = [call for call in answer.tool_calls if call not in broken]
        update["invalid_tool_calls"] = [*answer.invalid_tool_calls, *map(_invalid, broken)]
    return answer.model_copy(update=update) if update else answer


def _is_storable(call: ToolCall) -> bool:
    """Whether a checkpoint can hold it: UTF-8, integers of 64 bits, at most `MAX_ARGUMENT_DEPTH` levels."""
    pending: list[tuple[Any, int]] = [(call["name"], 0), (call["id"], 0), (call["args"], 0)]
    while pending:
        value, depth = pending.pop()
        if isinstance(value, dict | list):
            if depth == MAX_ARGUMENT_DEPTH:
                return False
            parts = [*value, *value.values()] if isinstance(value, dict) else value
            pending += [(part, depth + 1) for part in parts]
        elif isinstance(value, str):
            if not value.isascii() and not _is_utf8(value):
                return False
        elif isinstance(value, int) and not -(2**63) <= value < 2**64:
            return False
    return True


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _invalid(call: ToolCall) -> InvalidToolCall:
    call_id = None if call["id"] is None else valid_text(call["id"])
    return invalid_tool_call(name=valid_text(call["name"]), id=call_id)


def _with_calls_answered(answer: AIMessage) -> list[AIMessage | ToolMessage]:
    """As a call without arguments and its result, an unreadable call takes the agent to its next turn."""
    broken = [
        ToolCall(name=call.get("name") or "unknown", args={}, id=call["id"], type="tool_call")
        for call in answer.invalid_tool_calls
    ]
    message = answer.model_copy(
        update={
            "tool_calls": [*answer.tool_calls, *broken],
            "invalid_tool_calls": [],
            **_without_provider_forms(answer),
        }
    )
    return [message, *(_unreadable(call) for call in broken)]


def _unreadable(call: ToolCall) -> ToolMessage:
    return _result(UNREADABLE, call["id"] or "", call["name"], **{_UNREADABLE_KEY: True})


def _result(text: str, call_id: str, name: str, **marks: Any) -> ToolMessage:
    """What stands in the place of a result that no tool gave."""
    return ToolMessage(
        text, tool_call_id=call_id, name=name, status="error", additional_kwargs={**_MARKS, **marks}
    )


def _unreadable_so_far(messages: Sequence[AnyMessage]) -> int:
    """How many answers in a row, up to now, had none but unreadable calls."""
    count = 0
    for message in reversed(messages):
        if isinstance(message, AIMessage) and message.tool_calls:
            count += 1
        elif not (isinstance(message, ToolMessage) and message.additional_kwargs.get(_UNREADABLE_KEY)):
            break  # not told by its text, which a tool may give as well
    return count


def _with_distinct_ids(answer: AIMessage) -> AIMessage:
    calls = [*answer.tool_calls, *answer.invalid_tool_calls]
    ids = [call.get("id") for call in calls]
    if all(ids) and len(set(ids)) == len(ids):
        return answer
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
    return answer.model_copy(update={**update, **_without_provider_forms(answer)})


def _without_provider_forms(answer: AIMessage) -> dict[str, Any]:
    """Of the same calls in a provider's own form, which would bring the old ones into the next request."""
    update: dict[str, Any] = {
        "additional_kwargs": {k: v for k, v in answer.additional_kwargs.items() if k != "tool_calls"}
    }
    if isinstance(answer.content, list):
        update["content"] = [
            block
            for block in answer.content
            if not (isinstance(block, dict) and block.get("type") in _CALL_BLOCKS)
        ]
    return update
