"""A conversation as text for the host's own model calls: escaped, so that it cannot pass for their prompt."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from deerflow_extension_api import read_provenance
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from deerflow.agents.authorship import is_from_person

MAX_CHARACTERS_OF_ONE = 4_000


def excerpt(messages: Sequence[BaseMessage], *, max_characters: int) -> str:
    """The newest of `messages` that fit, oldest first, each in a block that names who said it."""
    blocks: list[str] = []
    for message in reversed(messages):
        block = _block(message)
        max_characters -= len(block) + 1
        if max_characters < 0:
            break
        blocks.append(block)
    return "\n".join(filter(None, reversed(blocks)))


def latest_exchange(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """What the person said last, and what the model answered; nothing that tools brought in."""
    start = next((i for i in reversed(range(len(messages))) if is_from_person(messages[i])), None)
    if start is None:
        return []
    while start > 0 and is_from_person(messages[start - 1]):
        start -= 1
    turn = messages[start:]
    return [*filter(is_from_person, turn), *[message for message in turn if _is_answer(message)][-1:]]


def _is_answer(message: BaseMessage) -> bool:
    """Whether a model said something: not the host in its place, because a limit was reached, say."""
    return isinstance(message, AIMessage) and bool(message.text.strip()) and read_provenance(message) is None


def _block(message: BaseMessage) -> str:
    if isinstance(message, SystemMessage):
        return ""
    text = message.text.strip()
    if isinstance(message, AIMessage) and message.tool_calls:
        names = ", ".join(call["name"] for call in message.tool_calls)
        text = f"{text}\n[calls {names}]".strip()
    if len(text) > MAX_CHARACTERS_OF_ONE:
        half = MAX_CHARACTERS_OF_ONE // 2
        text = f"{text[:half]}\n[...]\n{text[-half:]}"
    return f"<{_speaker(message)}>{escape(text, quote=False)}</{_speaker(message)}>" if text else ""


def _speaker(message: BaseMessage) -> str:
    if isinstance(message, AIMessage):
        return "assistant"
    if isinstance(message, ToolMessage):
        return "tool"
    return "user" if is_from_person(message) else "context"
