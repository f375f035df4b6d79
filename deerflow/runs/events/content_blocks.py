"""The newer way to stream messages: each as blocks of content that begin, grow and finish.

Event names and data as in LangGraph's streaming protocol: `message-start`, `content-block-start`,
`content-block-delta`, `content-block-finish`, `message-finish`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata, add_usage

Json = dict[str, Any]
Namespace = tuple[str, ...]

_TOOL_CALLS = frozenset({"tool_call", "tool_call_chunk", "invalid_tool_call"})
# The field of a block that grows piece by piece, and what its pieces are called.
_GROWING = {"text": "text-delta", "reasoning": "reasoning-delta"}


class ContentBlocks:
    """The messages of one run, as far as they have come. Results of tools are not among them."""

    def __init__(self) -> None:
        self._open: dict[str | None, _OpenMessage] = {}
        self._told: set[str | None] = set()

    def take(self, namespace: Namespace, message: BaseMessage) -> Iterator[Json]:
        """The events that one streamed message or chunk makes."""
        if isinstance(message, ToolMessage) or message.id in self._told:
            return
        if not isinstance(message, AIMessageChunk) and message.id in self._open:
            return  # the whole of what is told piece by piece
        if message.id not in self._open:
            self._open[message.id] = _OpenMessage(namespace)
            yield {"event": "message-start", "role": _role_of(message), "id": message.id}
        yield from self._open[message.id].add(message)
        if not isinstance(message, AIMessageChunk) or message.chunk_position == "last":
            yield from self._finish(message.id)

    def rest(self, namespace: Namespace) -> Iterator[Json]:
        """The ends of messages of `namespace` whose last chunk did not say that it is the last."""
        for message_id in [key for key, open_ in self._open.items() if open_.namespace == namespace]:
            yield from self._finish(message_id)

    def _finish(self, message_id: str | None) -> Iterator[Json]:
        self._told.add(message_id)
        yield from self._open.pop(message_id).finish()


@dataclass
class _Block:
    """One block. `first` is how it began, `pieces` what came of its growing field."""

    index: int
    first: Json
    pieces: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return str(self.first["type"])

    def finished(self) -> Json:
        text = "".join(self.pieces)
        if self.kind == "tool_call_chunk":
            return _tool_call(self.first, text)
        return {**self.first, self.kind: text} if self.kind in _GROWING else self.first


class _OpenMessage:
    """A message that has begun."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self._blocks: dict[tuple[str, Any], _Block] = {}
        self._usage: UsageMetadata | None = None
        self._metadata: Json = {}

    def add(self, message: BaseMessage) -> Iterator[Json]:
        """The events of what this piece brings."""
        for block in message.content_blocks:
            if block["type"] not in _TOOL_CALLS:
                yield from self._add_block(dict(block))
        if isinstance(message, AIMessageChunk):
            for chunk in message.tool_call_chunks:
                yield from self._add_call(dict(chunk))
        elif isinstance(message, AIMessage):
            for call in message.tool_calls:
                yield from self._add_call({**call, "args": json.dumps(call["args"], default=str)})
        if isinstance(message, AIMessage):
            self._usage = add_usage(self._usage, message.usage_metadata)
        self._metadata |= message.response_metadata

    def finish(self) -> Iterator[Json]:
        """The events of its end."""
        for block in self._blocks.values():
            yield {"event": "content-block-finish", "index": block.index, "content": block.finished()}
        end: Json = {"event": "message-finish", "metadata": self._metadata}
        yield end if self._usage is None else {**end, "usage": self._usage}

    def _add_block(self, piece: Json) -> Iterator[Json]:
        kind = piece["type"]
        text = piece.pop(kind, None) if kind in _GROWING else None
        key = (kind, piece.pop("index", None) if kind in _GROWING else piece.get("index"))
        block = self._blocks.get(key)
        if block is None:
            if text == "" and len(piece) == 1:
                return  # nothing has come yet
            block = self._begin(key, piece)
            yield _started(block, {**piece, kind: ""} if kind in _GROWING else piece)
        elif kind not in _GROWING:
            block.first = {**block.first, **piece}
            yield _grown(block, {"type": "block-delta", "fields": piece})
        else:
            block.first = {**block.first, **piece}
        if text:
            block.pieces.append(text)
            yield _grown(block, {"type": _GROWING[kind], kind: text})

    def _add_call(self, chunk: Mapping[str, Any]) -> Iterator[Json]:
        place = chunk.get("index")
        key = ("tool_call_chunk", chunk.get("id") if place is None else place)
        block = self._blocks.get(key)
        if block is None:
            named = {name: chunk.get(name) for name in ("id", "name")}
            block = self._begin(key, {"type": "tool_call_chunk", **named})
            yield _started(block, {**block.first, "args": "", "index": block.index})
        if args := chunk.get("args"):
            block.pieces.append(args)
            yield _grown(block, {"type": "tool-call-delta", "args": args})

    def _begin(self, key: tuple[str, Any], first: Json) -> _Block:
        block = self._blocks[key] = _Block(len(self._blocks), first)
        return block


def _started(block: _Block, content: Json) -> Json:
    return {"event": "content-block-start", "index": block.index, "content": content}


def _grown(block: _Block, delta: Json) -> Json:
    return {"event": "content-block-delta", "index": block.index, "delta": delta}


def _tool_call(begun: Json, text: str) -> Json:
    call = {"id": begun["id"], "name": begun["name"]}
    try:
        args = json.loads(text or "{}")
    except ValueError:
        args = None
    if isinstance(args, dict) and call["name"]:
        return {"type": "tool_call", **call, "args": args}
    return {"type": "invalid_tool_call", **call, "args": text, "error": "the arguments are no JSON object"}


def _role_of(message: BaseMessage) -> str:
    return "ai" if isinstance(message, AIMessage) else message.type
