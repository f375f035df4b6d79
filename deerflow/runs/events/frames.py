"""From what the graph streams to the named events of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from langgraph.types import StreamMode

from deerflow.agents.authorship import is_summary
from deerflow.runs.events.content_blocks import ContentBlocks
from deerflow.runs.events.log import EventLog
from deerflow.runs.events.partial_messages import PartialMessages
from deerflow.runs.recorder import EventRecorder
from deerflow.runs.serialize import to_json_value

# Always streamed by the graph, whether the caller asked or not: they tell how the run ended, and what
# is to be kept of it.
_OWN_MODES = ("values", "updates", "custom")
_GRAPH_NAMES = {"messages-tuple": "messages", "content-blocks": "messages"}
_INTERRUPT = "__interrupt__"


class FrameWriter:
    """Publishes what the caller asked for, keeps what is to be kept, and remembers the last state."""

    def __init__(
        self, log: EventLog, recorder: EventRecorder, modes: tuple[str, ...], *, subgraphs: bool
    ) -> None:
        self._log = log
        self._recorder = recorder
        self._subgraphs = subgraphs
        self._asked = {_GRAPH_NAMES.get(mode, mode) for mode in modes}
        self._partial = None if "messages-tuple" in modes else PartialMessages()
        self._blocks = ContentBlocks() if "content-blocks" in modes else None
        self.interrupts: tuple[dict[str, Any], ...] = ()
        self.paused = False
        self.values: Mapping[str, Any] = {}

    @property
    def graph_modes(self) -> list[StreamMode]:
        """The stream modes to ask of the graph."""
        # Events come by callbacks; but models stream only where somebody follows the messages.
        asked = {"messages" if mode == "events" else mode for mode in self._asked}
        return cast(list[StreamMode], sorted(asked | set(_OWN_MODES)))

    def write(self, namespace: tuple[str, ...], mode: str, chunk: Any) -> None:
        """Take one part of the graph's stream."""
        if namespace and not self._subgraphs:
            return
        if not namespace:
            self._follow(mode, chunk)
        if mode not in self._asked or not self._is_wanted(mode, chunk):
            return
        if self._blocks is not None:
            self._write_for_protocol(self._blocks, namespace, mode, chunk)
        elif mode == "messages" and self._partial is not None:
            for name, data in self._partial.take(*chunk):
                self._log.publish(name, data)
        else:
            self._log.publish("|".join((mode, *namespace)), chunk)

    def _write_for_protocol(
        self, blocks: ContentBlocks, namespace: tuple[str, ...], mode: str, chunk: Any
    ) -> None:
        if mode == "messages":
            told = list(blocks.take(namespace, chunk[0]))
        else:
            told = list(blocks.rest(namespace)) if mode == "values" else []
        for data in told:
            self._log.publish("|".join(("messages", *namespace)), data)
        if mode != "messages":
            self._log.publish("|".join((mode, *namespace)), _without_state(mode, chunk))

    def _follow(self, mode: str, chunk: Any) -> None:
        if mode == "values":
            self.values = chunk
        elif mode == "updates" and _INTERRUPT in chunk:
            self.paused = True
            self.interrupts += tuple(
                to_json_value(list(chunk[_INTERRUPT]))
            )  # each task asks in its own chunk
        elif mode == "updates":
            self._recorder.note_update(chunk, self.values)
        elif mode == "custom":
            self._recorder.note_custom(chunk)

    def _is_wanted(self, mode: str, chunk: Any) -> bool:
        if mode == "messages" and is_summary(chunk[0]):
            return False  # part of the state, but nobody said it
        # Clients that see updates get the interrupt there, and not a second time as state.
        return not (mode == "values" and _INTERRUPT in chunk and "updates" in self._asked)


def _without_state(mode: str, chunk: Any) -> Any:
    """What tasks and checkpoints say beside the state, which `values` has already."""
    if mode == "checkpoints":
        return _checkpoint(chunk)
    if mode == "tasks" and isinstance(chunk.get("input"), Mapping) and "tool_call" not in chunk["input"]:
        return {key: value for key, value in chunk.items() if key != "input"}
    return chunk


def _checkpoint(chunk: Mapping[str, Any]) -> dict[str, Any]:
    metadata = chunk.get("metadata") or {}
    told = {"id": _checkpoint_id(chunk), "step": metadata.get("step"), "source": metadata.get("source")}
    parent_id = _checkpoint_id({"config": chunk.get("parent_config")})
    return told if parent_id is None else {**told, "parent_id": parent_id}


def _checkpoint_id(chunk: Mapping[str, Any]) -> str | None:
    configurable = (chunk.get("config") or {}).get("configurable") or {}
    return cast("str | None", configurable.get("checkpoint_id"))
