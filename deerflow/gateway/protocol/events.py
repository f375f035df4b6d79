"""From the events of a run to those of LangGraph's streaming protocol.

The protocol has one numbering for a thread, and ids under which clients know what they have seen already:
both follow from the run's own numbers, so that whoever comes back is told the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson

from deerflow.gateway.protocol.namespaces import Namespaces
from deerflow.gateway.threads.numbers import ThreadNumbers
from deerflow.runs.events.log import RunEvent
from deerflow.runs.record import RunStatus
from deerflow.runs.request import GRAPH_ID
from deerflow.runs.serialize import encode_json

Json = dict[str, Any]
Namespace = tuple[str, ...]

INTERRUPT: Final = "__interrupt__"
_ENDS: Final = ("completed", "failed", "interrupted")
_LIFECYCLE_OF: Final = {
    RunStatus.PENDING: "running",
    RunStatus.RUNNING: "running",
    RunStatus.SUCCESS: "completed",
    RunStatus.INTERRUPTED: "interrupted",
}


@dataclass(frozen=True)
class ProtocolEvent:
    """One event. `data` may be JSON that is encoded already; `name` is that of its channel."""

    channel: str
    namespace: Namespace
    data: Any
    event_id: str
    seq: int
    at_ms: int
    node: str | None = None

    @property
    def method(self) -> str:
        return "input.requested" if self.channel == "input" else self.channel

    def encoded(self) -> bytes:
        """The event as one line of JSON."""
        params: Json = {"namespace": self.namespace, "timestamp": self.at_ms, "data": self.data}
        if self.node is not None:
            params["node"] = self.node
        return encode_json(
            {
                "type": "event",
                "event_id": self.event_id,
                "seq": self.seq,
                "method": self.method,
                "params": params,
            }
        )


@dataclass(frozen=True)
class _Told:
    """An event before it is numbered. `name` makes its id, where it does not follow from the run's event."""

    channel: str
    namespace: Namespace
    data: Any
    name: str | None = None
    node: str | None = None


class RunTranslator:
    """What one run's events are in the protocol. To be given all of them, in order."""

    def __init__(self, run_id: str, created_at: datetime, numbers: ThreadNumbers | None = None) -> None:
        self._run_id = run_id
        self._created_at = created_at
        self._numbers = numbers or ThreadNumbers()
        self._asked: set[str] = set()
        self._checkpoints: set[str] = set()
        self._error: str | None = None
        self.namespaces = Namespaces()
        self._tellers: Mapping[str, Callable[[Namespace, RunEvent], Iterator[_Told]]] = {
            "values": self._on_values,
            "messages": self._on_messages,
            "updates": self._on_updates,
            "custom": self._on_custom,
            "tools": self._on_tools,
            "tasks": self._on_tasks,
            "checkpoints": self._on_checkpoints,
        }

    def events(self, event: RunEvent) -> list[ProtocolEvent]:
        """The protocol's events that one event of the run makes."""
        if event.name == "gap":
            return []  # clients see it by the numbers
        at_ms = event.at_ms or time.time_ns() // 1_000_000
        numbered = []
        for index, told in enumerate(self._told(event)):
            seq = self._numbers.next(self._created_at, event.id or 0, index)
            own_id = f"{self._run_id}:{event.id}" + (f".{index}" if index else "")
            event_id = own_id if told.name is None else f"synth:{self._run_id}:{told.name}"
            where = (told.channel, told.namespace)
            numbered.append(ProtocolEvent(*where, told.data, event_id, seq, at_ms, told.node))
        return numbered

    def _told(self, event: RunEvent) -> Iterator[_Told]:
        mode, *segments = event.name.split("|")
        namespace = tuple(segments)
        yield from self._lifecycle("running", unless=("running", *_ENDS))
        if mode == "error":
            self._error = str(_data(event).get("message"))
        elif mode == "end":
            yield from self._end(_data(event))
        elif mode in self._tellers:
            yield from self._tellers[mode](namespace, event)

    def _on_values(self, namespace: Namespace, event: RunEvent) -> Iterator[_Told]:
        if f'"{INTERRUPT}"'.encode() not in event.payload:
            if event.payload != b"{}":
                yield _Told("values", namespace, orjson.Fragment(event.payload))
            return
        values = _data(event)
        yield from self._ask(namespace, values.pop(INTERRUPT, None))
        if values:
            yield _Told("values", namespace, values)

    def _on_messages(self, namespace: Namespace, event: RunEvent) -> Iterator[_Told]:
        data = _data(event)
        if isinstance(data, dict) and isinstance(data.get("event"), str):
            yield _Told("messages", namespace, data)

    def _on_updates(self, namespace: Namespace, event: RunEvent) -> Iterator[_Told]:
        updates = _data(event)
        yield from self._ask(namespace, updates.pop(INTERRUPT, None))
        for node, values in updates.items():
            if values:
                told = values if isinstance(values, dict) else {"value": values}
                yield _Told("updates", namespace, told, node=node)

    def _on_custom(self, namespace: Namespace, event: RunEvent) -> Iterator[_Told]:
        yield _Told("custom", namespace, {"payload": orjson.Fragment(event.payload)})

    def _on_tools(self, namespace: Namespace, event: RunEvent) -> Iterator[_Told]:
        yield _Told("tools", namespace, orjson.Fragment(event.payload))
        yield from _tool_message(namespace, _data(event))

    def _on_tasks(self, namespace: Namespace, event: RunEvent) -> Iterator[_Told]:
        for changed, data in self.namespaces.take(namespace, _data(event)):
            yield _Told("lifecycle", changed, data, _lifecycle_name(changed, data["event"]))
        yield _Told("tasks", namespace, orjson.Fragment(event.payload))

    def _on_checkpoints(self, namespace: Namespace, event: RunEvent) -> Iterator[_Told]:
        checkpoint = _data(event)
        checkpoint_id = checkpoint.get("id")
        name = f"checkpoint|{_path(namespace)}|{checkpoint_id}"
        if isinstance(checkpoint_id, str) and name not in self._checkpoints:
            self._checkpoints.add(name)
            yield _Told("checkpoints", namespace, checkpoint, name)

    def _ask(self, namespace: Namespace, interrupts: Any) -> Iterator[_Told]:
        asked = False
        for interrupt in interrupts if isinstance(interrupts, list) else ():
            interrupt_id = interrupt.get("id")
            if interrupt_id not in self._asked:
                self._asked.add(interrupt_id)
                asked = True
                data = {"interrupt_id": interrupt_id, "payload": interrupt.get("value")}
                yield _Told("input", namespace, data, f"input|{_path(namespace)}|{interrupt_id}")
        if asked:
            yield from self._lifecycle("interrupted", unless=_ENDS)

    def _end(self, end: Mapping[str, Any]) -> Iterator[_Told]:
        yield from self._ask((), end.get("interrupts"))
        for changed, data in self.namespaces.close():
            yield _Told("lifecycle", changed, data, _lifecycle_name(changed, data["event"]))
        status = lifecycle_of(RunStatus(end["status"]))
        yield from self._lifecycle(status, unless=_ENDS, error=self._error or end.get("error"))

    def _lifecycle(
        self, status: str, *, unless: tuple[str, ...], error: str | None = None
    ) -> Iterator[_Told]:
        """The root's change to a status, unless it has one of those."""
        if self.namespaces.root_status in unless:
            return
        self.namespaces.root_status = status
        data: Json = {"event": status, "graph_name": GRAPH_ID}
        told = data if error is None else {**data, "error": error}
        yield _Told("lifecycle", (), told, _lifecycle_name((), status))


def _data(event: RunEvent) -> Any:
    # Not `event.data`, which stays with the event, for as long as that is kept.
    return orjson.loads(event.payload)


def lifecycle_of(status: RunStatus) -> str:
    """What the protocol calls a run's status."""
    return _LIFECYCLE_OF.get(status, "failed")


def _path(namespace: Namespace) -> str:
    return "/".join(namespace)


def _lifecycle_name(namespace: Namespace, status: str) -> str:
    return f"lc|{_path(namespace)}|{status}"


def _tool_message(namespace: Namespace, data: Any) -> Iterator[_Told]:
    """What a tool came to, as a message beside those of models."""
    output = data.get("output")
    if data.get("event") != "tool-finished" or not isinstance(output, dict):
        return
    call_id = data["tool_call_id"]
    content = output.get("content")
    text = content if isinstance(content, str) else encode_json(content).decode()
    start = {
        "event": "message-start",
        "role": "tool",
        "id": output.get("id") or f"tool-{call_id}",
        "tool_call_id": call_id,
    }
    block: Json = {"event": "content-block-start", "index": 0, "content": {"type": "text", "text": ""}}
    grown = {"event": "content-block-delta", "index": 0, "delta": {"type": "text-delta", "text": text}}
    finished = {**block, "event": "content-block-finish", "content": {"type": "text", "text": text}}
    for told in (start, block, grown, finished, {"event": "message-finish", "metadata": {}}):
        yield _Told("messages", (*namespace, f"tools:{call_id}"), told)
