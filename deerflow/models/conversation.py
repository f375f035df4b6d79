"""A conversation as the scripted model reads it: the last human message and what came after."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage


@dataclass(frozen=True)
class Conversation:
    """All messages; `turn` holds those that stand after the last human message."""

    messages: tuple[BaseMessage, ...]
    prompt: str
    turn: tuple[BaseMessage, ...]

    @classmethod
    def read(cls, messages: Sequence[BaseMessage]) -> Conversation:
        at = max((i for i, message in enumerate(messages) if _is_prompt(message)), default=None)
        if at is None:
            return cls(tuple(messages), "", tuple(messages))
        return cls(tuple(messages), text_of(messages[at].content), tuple(messages[at + 1 :]))

    @property
    def turn_index(self) -> int:
        return sum(isinstance(message, AIMessage) for message in self.turn)

    @property
    def tool_messages(self) -> list[ToolMessage]:
        return [message for message in self.turn if isinstance(message, ToolMessage)]

    @property
    def tool_results(self) -> str:
        return "\n".join(text_of(message.content) for message in self.tool_messages)

    def word_count(self) -> int:
        return sum(count_words(text_of(message.content)) for message in self.messages)

    def fingerprint(self) -> str:
        """Return a short hash of what was said so far: another one for each turn of a conversation."""
        digest = hashlib.blake2b(digest_size=6)
        for message in self.messages:
            digest.update(f"\0{message.type}\0".encode())
            digest.update(text_of(message.content).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def _is_prompt(message: BaseMessage) -> bool:
    # LangChain keeps summaries of older messages as human ones; nobody asks anything in them.
    return isinstance(message, HumanMessage) and message.additional_kwargs.get("lc_source") != "summarization"


def text_of(content: Any) -> str:
    """Return the text of a message's content: a string, or the text parts of a list."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(_text_of_part(part) for part in content)


def _text_of_part(part: Any) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""


def count_words(text: str) -> int:
    return len(text.split())
