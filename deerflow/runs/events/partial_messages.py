"""The older way to stream messages: each chunk as the message so far, after its metadata.

Event names and data as in LangGraph's server: `messages/metadata`, `messages/partial`, `messages/complete`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from langchain_core.messages import AIMessageChunk, BaseMessage, BaseMessageChunk, message_chunk_to_message

EACH_CHUNK_UP_TO_CHARACTERS = 4096
STEPS_OF_LONGER = 64
"""A longer message is told when it has grown by such a part: told with each chunk, its cost would grow with
the square of its length."""


class PartialMessages:
    """The messages of one run, as far as they have come."""

    def __init__(self) -> None:
        self._messages: dict[str | None, _Growing | None] = {}

    def take(self, message: BaseMessage, metadata: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """The events that one streamed message or chunk makes."""
        if message.id not in self._messages:
            yield "messages/metadata", {message.id: {"metadata": metadata}}
        if not isinstance(message, BaseMessageChunk):
            self._messages[message.id] = None
            yield "messages/complete", [message]
            return
        growing = self._messages.get(message.id)
        if growing is None:
            growing = self._messages[message.id] = _Growing()
        growing.add(message)
        if growing.is_to_be_told:
            yield "messages/partial", [message_chunk_to_message(growing.told())]


class _Growing:
    """A message in chunks, joined only when it is told."""

    def __init__(self) -> None:
        self._whole: Any = None
        self._pending: list[Any] = []
        self._characters = 0
        self._pending_characters = 0

    def add(self, chunk: BaseMessageChunk) -> None:
        self._pending.append(chunk)
        self._pending_characters += _characters(chunk)

    @property
    def is_to_be_told(self) -> bool:
        is_short = self._characters < EACH_CHUNK_UP_TO_CHARACTERS
        has_grown = self._pending_characters * STEPS_OF_LONGER >= self._characters
        return is_short or has_grown or getattr(self._pending[-1], "chunk_position", None) == "last"

    def told(self) -> BaseMessageChunk:
        """The message so far."""
        chunks = self._pending if self._whole is None else [self._whole, *self._pending]
        self._whole = chunks[0] + chunks[1:] if len(chunks) > 1 else chunks[0]
        self._characters += self._pending_characters
        self._pending, self._pending_characters = [], 0
        return self._whole  # type: ignore[no-any-return]


def _characters(chunk: BaseMessageChunk) -> int:
    calls = chunk.tool_call_chunks if isinstance(chunk, AIMessageChunk) else ()
    text = chunk.content if isinstance(chunk.content, str) else chunk.text
    return len(text) + sum(len(call.get("args") or "") for call in calls)
