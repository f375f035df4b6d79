"""Messages as far as they have come: at a cost that their length bounds."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessageChunk, ToolMessage

from deerflow.runs.events.partial_messages import EACH_CHUNK_UP_TO_CHARACTERS, PartialMessages


def text(content: str, **fields: Any) -> AIMessageChunk:
    return AIMessageChunk(content, id="a", **fields)


def arguments(piece: str, **fields: Any) -> AIMessageChunk:
    call: Any = {"name": None, "args": piece, "id": None, "index": 0, "type": "tool_call_chunk"}
    return AIMessageChunk("", id="a", tool_call_chunks=[call], **fields)


def told(chunks: list[Any]) -> list[tuple[str, Any]]:
    partial = PartialMessages()
    return [event for chunk in chunks for event in partial.take(chunk, {"node": "model"})]


def test_a_short_message_is_told_with_each_chunk() -> None:
    events = told([text("go"), text("go"), text("", chunk_position="last"), HumanMessageChunk("x", id="b")])
    assert events[0] == ("messages/metadata", {"a": {"metadata": {"node": "model"}}})
    partials = [data[0] for name, data in events if name == "messages/partial"]
    assert [message.content for message in partials] == ["go", "gogo", "gogo", "x"]
    assert isinstance(partials[0], AIMessage)


def test_a_whole_message_is_complete() -> None:
    message = ToolMessage("found", tool_call_id="c", id="t")
    assert told([message, message])[1:] == [("messages/complete", [message])] * 2


@pytest.mark.parametrize("make", [text, arguments])
def test_a_long_message_is_told_in_growing_steps_and_whole_at_the_end(make: Any) -> None:
    pieces = ['{"text": "', *["x" * 10] * 10_000, '"}']
    chunks = [*(make(piece) for piece in pieces), make("", chunk_position="last")]
    partials = [data[0] for name, data in told(chunks) if name == "messages/partial"]
    sizes = [
        len(message.content) or len(message.tool_calls[0]["args"].get("text", "")) for message in partials
    ]
    assert sizes == sorted(sizes)
    assert len(partials) < EACH_CHUNK_UP_TO_CHARACTERS / 10 + 300
    assert sum(sizes) < 100 * len("".join(pieces))
    last = partials[-1]
    assert last.content == "".join(pieces) or last.tool_calls[0]["args"] == {"text": "x" * 100_000}
