"""The older way to stream messages: each chunk as the message so far, after its metadata.

Event names and data as in LangGraph's server: `messages/metadata`, `messages/partial`, `messages/complete`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from langchain_core.messages import BaseMessage, BaseMessageChunk, message_chunk_to_message


class PartialMessages:
    """The messages of one run, as far as they have come."""

    def __init__(self) -> None:
        self._messages: dict[str | None, Any] = {}

    def take(self, message: BaseMessage, metadata: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """The events that one streamed message or chunk makes."""
        known = self._messages.get(message.id)
        if known is None:
            yield "messages/metadata", {message.id: {"metadata": metadata}}
        if not isinstance(message, BaseMessageChunk):
            self._messages[message.id] = message
            yield "messages/complete", [message]
            return
        whole = known + message if isinstance(known, BaseMessageChunk) else message
        self._messages[message.id] = whole
        yield "messages/partial", [message_chunk_to_message(whole)]
