"""The offline demo agent: outlines the files that a message names, with the real tools and no model.

As the lead it delegates one subagent per file; as a subagent it reads its file and reports.
"""

from __future__ import annotations

import re
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage

from deerflow.models.conversation import Conversation, text_of
from deerflow.models.file_names import find_file_names
from deerflow.models.outline import outline
from deerflow.models.script import ScriptedToolCall, ScriptedTurn

MAX_FILES = 50  # the most that one run may delegate

_INTRODUCTION = (
    "I am the offline demo agent: no language model answers here. Name one or more files of the workspace, "
    "for example README.md, and I report their outlines. For other work, configure a model under `models:`."
)
_REPORT = re.compile(r"Task Succeeded(?: \(capped: (?P<cap>[^)]*)\))?\. Result: ")
_CUT = re.compile(r"\n?\[cut: [^\]]*\]\s*\Z")  # how `read_file` ends a part of a file
_EMPTY = "[the file is empty]"


def answer(conversation: Conversation, tool_names: frozenset[str]) -> ScriptedTurn:
    """Return the next message: delegations, reads, or the report on their results."""
    if conversation.tool_messages:
        return ScriptedTurn(text=_report(conversation))
    files = find_file_names(conversation.prompt)
    if not files:
        return ScriptedTurn(text=_INTRODUCTION)
    if "task" in tool_names:
        return _calls([_delegation(name) for name in files[:MAX_FILES]])
    if "read_file" in tool_names:
        return _calls([ScriptedToolCall(name="read_file", args={"path": name}) for name in files[:MAX_FILES]])
    return ScriptedTurn(
        text=f"I cannot read {', '.join(files)}: neither `task` nor `read_file` is at hand here."
    )


def _calls(calls: list[ScriptedToolCall]) -> ScriptedTurn:
    return ScriptedTurn(tool_calls=tuple(calls))


def _delegation(name: str) -> ScriptedToolCall:
    quote = next((mark for mark in "\"`'" if mark not in name), '"')
    order = f"Read the file {quote}{name}{quote} and report its headings with their first sentence."
    args = {"prompt": order, "subagent_type": "general-purpose", "description": f"Outline {name}"}
    return ScriptedToolCall(name="task", args=args)


def _report(conversation: Conversation) -> str:
    asked = {
        call["id"]: call
        for message in conversation.turn
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    }
    parts = [_part(message, asked.get(message.tool_call_id) or {}) for message in conversation.tool_messages]
    left_out = find_file_names(conversation.prompt)[MAX_FILES:]
    if left_out:
        parts.append(f"Not read, because {MAX_FILES} files are the most at once: {', '.join(left_out)}")
    return "\n\n".join(parts)


def _part(message: ToolMessage, call: Any) -> str:
    """Return the report of one tool result: an outline of what was read, or what went wrong."""
    text = text_of(message.content)
    args = call.get("args") or {}
    if message.name == "task" or call.get("name") == "task":
        return _subagent_report(text, str(args.get("description", "a file")).removeprefix("Outline "))
    name = str(args.get("path", "a file"))
    if message.status == "error":
        return f"{name}: could not be read. {text}"
    if text == _EMPTY:
        return outline(name, "")
    cut = _CUT.search(text)
    if cut:
        return outline(
            name, text[: cut.start()], note="of a part only: the file is longer than one read shows"
        )
    return outline(name, text)


def _subagent_report(text: str, name: str) -> str:
    success = _REPORT.match(text)
    if success is None:
        return f"{name}: no report. {text}"
    report = text[success.end() :].strip() or f"{name}: the subagent said nothing."
    return f"{report}\n(stopped early: {success['cap']})" if success["cap"] else report
