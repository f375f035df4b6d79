"""From the events of a chat to those of a Job: messages as changes to blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from axonx.components.job import AgentBlockPatch, AgentMessageEvent
from deerflow.client import StreamEvent

_TEXT_BLOCKS = {"text": "text", "thinking": "thinking", "reasoning": "thinking"}
_DEFAULT_TYPE = "custom"


class ChatEvents:
    """Translates one turn, and keeps what it came to: `answer`, `status`, `usage`.

    Text comes token by token (`start`, `append`, `finish`), calls of tools as one block each (`start` with
    the arguments, `finish` with the result), and what tools tell of their progress as `system` blocks.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.answer = ""
        self.status = ""
        self.error = ""
        self.run_id = ""
        self.usage: dict[str, Any] = {}
        self._sequence = 0
        self._known: set[str] | None = None
        self._open: dict[str, str] = {}

    @property
    def failure(self) -> str:
        """Why there is no answer."""
        if self.error:
            return f"the chat failed: {self.error}"
        return f"the chat ended as {self.status or 'unfinished'}: it was stopped, or waits for a person"

    def take(self, event: StreamEvent) -> Iterator[AgentMessageEvent]:
        """The messages that one event of the chat means, possibly none."""
        if event.type == "messages-tuple":
            yield from self._chunk(event.data[0])
        elif event.type == "values":
            yield from self._state(event.data.get("messages") or ())
        elif event.type == "custom":
            yield from self._custom(event.data)
        elif event.type == "end":
            yield from self._finish_open()
            self._end(event.data)

    def _chunk(self, chunk: Mapping[str, Any]) -> Iterator[AgentMessageEvent]:
        if not str(chunk.get("type", "")).startswith(("ai", "AI")):
            return
        message_id = str(chunk.get("id") or "")
        for kind, delta in _texts(chunk.get("content")):
            block_id = f"{message_id}:{kind}"
            if block_id in self._open:
                operation = "append"
            else:
                yield from self._finish_open()
                operation = "start"
                self._open[block_id] = message_id
            yield self._message(message_id, "message", _patch(operation, block_id, kind, delta))

    def _state(self, messages: Iterable[Mapping[str, Any]]) -> Iterator[AgentMessageEvent]:
        messages = list(messages)
        if self._known is None:  # what stood on the thread before this turn
            self._known = {str(message.get("id")) for message in messages}
            return
        for message in messages:
            message_id = str(message.get("id"))
            if message_id in self._known:
                continue
            self._known.add(message_id)
            if message.get("type") == "ai":
                yield from self._finish_open()
                yield from self._called_tools(message_id, message.get("tool_calls") or ())
                self.answer = _plain_text(message.get("content"))
            elif message.get("type") == "tool":
                yield self._tool_result(message_id, message)

    def _called_tools(
        self, message_id: str, calls: Iterable[Mapping[str, Any]]
    ) -> Iterator[AgentMessageEvent]:
        for call in calls:
            payload = {"name": call.get("name"), "args": call.get("args")}
            patch = _patch("start", _tool_block(call.get("id")), "tool", "", payload)
            yield self._message(message_id, "tool_call", patch)

    def _tool_result(self, message_id: str, message: Mapping[str, Any]) -> AgentMessageEvent:
        payload = {"name": message.get("name"), "status": message.get("status")}
        text = _plain_text(message.get("content"))
        patch = _patch("finish", _tool_block(message.get("tool_call_id")), "tool", text, payload)
        return self._message(message_id, "tool_result", patch)

    def _custom(self, payload: Any) -> Iterator[AgentMessageEvent]:
        content = payload if isinstance(payload, dict) else {"value": payload}
        kind = str(content.get("type") or _DEFAULT_TYPE)
        subject = content.get("task_id") or content.get("tool_call_id") or kind
        patch = _patch("replace", f"progress:{subject}", "system", "", content)
        yield self._message("", kind, patch, role="system")

    def _finish_open(self) -> Iterator[AgentMessageEvent]:
        while self._open:
            block_id, message_id = self._open.popitem()
            kind = block_id.rpartition(":")[2]
            yield self._message(message_id, "message", _patch("finish", block_id, kind))

    def _end(self, data: Mapping[str, Any]) -> None:
        self.status = str(data.get("status") or "")
        self.error = str(data.get("error") or "")
        self.run_id = str(data.get("run_id") or "")
        self.usage = dict(data.get("usage") or {})

    def _message(
        self, message_id: str, type_name: str, patch: AgentBlockPatch, *, role: Any = "assistant"
    ) -> AgentMessageEvent:
        self._sequence += 1
        return AgentMessageEvent(
            session_id=self.session_id,
            type_name=type_name,
            message_uuid=message_id,
            role=role,
            sequence=self._sequence,
            presentation=[patch],
        )


def _patch(
    operation: Any, block_id: str, kind: Any, delta: str = "", payload: dict[str, Any] | None = None
) -> AgentBlockPatch:
    return AgentBlockPatch(
        operation=operation, block_id=block_id, block_type=kind, delta=delta, payload=payload or {}
    )


def _tool_block(call_id: Any) -> str:
    return f"tool:{call_id}"


def _texts(content: Any) -> Iterator[tuple[str, str]]:
    """What is said and thought in a message's content, in order, as `(kind of block, text)`."""
    for block in [content] if isinstance(content, str) else content or ():
        if isinstance(block, str):
            if block:
                yield "text", block
            continue
        kind = block.get("type")
        text = block.get(kind) if kind in _TEXT_BLOCKS else None
        if isinstance(text, str) and text:
            yield _TEXT_BLOCKS[kind], text


def _plain_text(content: Any) -> str:
    return "".join(text for kind, text in _texts(content) if kind == "text")
