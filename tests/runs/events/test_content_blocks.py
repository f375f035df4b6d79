"""Streamed messages as blocks of content."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage

from deerflow.runs.events.content_blocks import ContentBlocks


def told(*messages: Any, namespace: tuple[str, ...] = ()) -> list[Any]:
    """What becomes of messages that come one after the other."""
    blocks = ContentBlocks()
    return [event for message in messages for event in blocks.take(namespace, message)]


def _chunk(content: Any = "", **fields: Any) -> AIMessageChunk:
    return AIMessageChunk(content=content, id="m1", **fields)


def test_text_grows_and_its_end_has_all_of_it() -> None:
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    events = told(
        _chunk("Hel"),
        _chunk("lo"),
        _chunk("", usage_metadata=usage, response_metadata={"model_name": "x"}, chunk_position="last"),
    )
    assert events == [
        {"event": "message-start", "role": "ai", "id": "m1"},
        {"event": "content-block-start", "index": 0, "content": {"type": "text", "text": ""}},
        {"event": "content-block-delta", "index": 0, "delta": {"type": "text-delta", "text": "Hel"}},
        {"event": "content-block-delta", "index": 0, "delta": {"type": "text-delta", "text": "lo"}},
        {"event": "content-block-finish", "index": 0, "content": {"type": "text", "text": "Hello"}},
        {"event": "message-finish", "metadata": {"model_name": "x"}, "usage": usage},
    ]


def test_thinking_text_and_calls_are_blocks_of_their_own() -> None:
    call = {"name": "search", "args": '{"q": ', "id": "call-1", "index": 0}
    rest = {"name": None, "args": '"x"}', "id": None, "index": 0}
    events = told(
        _chunk([{"type": "reasoning", "reasoning": "hm", "index": 0}]),
        _chunk([{"type": "reasoning", "reasoning": "m", "index": 0}]),
        _chunk([{"type": "text", "text": "Let me see", "index": 1}]),
        _chunk(tool_call_chunks=[call]),
        _chunk(tool_call_chunks=[rest]),
        _chunk(chunk_position="last"),
    )
    finished = [event["content"] for event in events if event["event"] == "content-block-finish"]
    assert finished == [
        {"type": "reasoning", "reasoning": "hmm"},
        {"type": "text", "text": "Let me see"},
        {"type": "tool_call", "id": "call-1", "name": "search", "args": {"q": "x"}},
    ]
    deltas = [event["delta"]["type"] for event in events if event["event"] == "content-block-delta"]
    assert deltas == [
        *("reasoning-delta", "reasoning-delta", "text-delta"),
        *("tool-call-delta", "tool-call-delta"),
    ]


def test_call_whose_arguments_are_no_object_is_told_as_invalid() -> None:
    call = {"name": "search", "args": "[1", "id": "call-1", "index": 0}
    events = told(_chunk(tool_call_chunks=[call]), _chunk(chunk_position="last"))
    (finished,) = [event["content"] for event in events if event["event"] == "content-block-finish"]
    assert (finished["type"], finished["args"]) == ("invalid_tool_call", "[1")


def test_blocks_that_come_whole_are_told_as_they_are() -> None:
    image = {"type": "image", "url": "https://example.com/a.png"}
    events = told(AIMessage([{"type": "text", "text": "see"}, image], id="m1"))
    starts = [event["content"] for event in events if event["event"] == "content-block-start"]
    finished = [event["content"] for event in events if event["event"] == "content-block-finish"]
    assert starts == [{"type": "text", "text": ""}, image]
    assert finished == [{"type": "text", "text": "see"}, image]


def test_whole_message_is_told_at_once_with_its_author() -> None:
    call = {"name": "search", "args": {"q": "x"}, "id": "call-1", "type": "tool_call"}
    events = told(AIMessage("", id="m1", tool_calls=[call]), HumanMessage("and you?", id="m2"))
    assert [(event["role"], event["id"]) for event in events if event["event"] == "message-start"] == [
        ("ai", "m1"),
        ("human", "m2"),
    ]
    finished = [event["content"] for event in events if event["event"] == "content-block-finish"]
    assert finished == [call, {"type": "text", "text": "and you?"}]


def test_nothing_is_told_twice_and_results_of_tools_not_at_all() -> None:
    whole = AIMessage("Hello", id="m1")
    chunks = [_chunk("Hello"), _chunk(chunk_position="last")]
    assert told(*chunks, whole) == told(*chunks)
    assert told(_chunk("Hel"), whole) == told(_chunk("Hel"))
    assert told(ToolMessage("done", tool_call_id="call-1", id="m3")) == []


def test_message_without_a_last_chunk_ends_with_the_step_of_its_graph() -> None:
    blocks = ContentBlocks()
    list(blocks.take(("tools:1",), _chunk("Hel")))
    assert list(blocks.rest(())) == []
    assert [event["event"] for event in blocks.rest(("tools:1",))] == [
        "content-block-finish",
        "message-finish",
    ]
    assert list(blocks.rest(("tools:1",))) == []
