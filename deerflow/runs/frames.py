"""From what the graph streams to the named events of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from langgraph.types import StreamMode

from deerflow.agents.authorship import is_summary
from deerflow.runs.event_log import EventLog
from deerflow.runs.partial_messages import PartialMessages
from deerflow.runs.recorder import EventRecorder
from deerflow.runs.serialize import to_json_value

# Always streamed by the graph, whether the caller asked or not: they tell how the run ended, and what
# is to be kept of it.
_OWN_MODES = ("values", "updates", "custom")
_GRAPH_NAMES = {"messages-tuple": "messages"}
_INTERRUPT = "__interrupt__"


class FrameWriter:
    """Publishes what the caller asked for, keeps what is to be kept, and remembers the last state."""

    def __init__(self, log: EventLog, recorder: EventRecorder, modes: tuple[str, ...]) -> None:
        self._log = log
        self._recorder = recorder
        self._asked = {_GRAPH_NAMES.get(mode, mode) for mode in modes}
        self._partial = None if "messages-tuple" in modes else PartialMessages()
        self.interrupts: tuple[dict[str, Any], ...] = ()
        self.paused = False
        self.values: Mapping[str, Any] = {}

    @property
    def graph_modes(self) -> list[StreamMode]:
        """The stream modes to ask of the graph."""
        return cast(list[StreamMode], sorted(self._asked | set(_OWN_MODES)))

    def write(self, namespace: tuple[str, ...], mode: str, chunk: Any) -> None:
        """Take one part of the graph's stream."""
        if not namespace:
            self._follow(mode, chunk)
        if mode not in self._asked or not self._is_wanted(mode, chunk):
            return
        if mode == "messages" and self._partial is not None:
            for name, data in self._partial.take(*chunk):
                self._log.publish(name, data)
        else:
            self._log.publish("|".join((mode, *namespace)), chunk)

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
