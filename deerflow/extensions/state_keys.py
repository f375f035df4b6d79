"""The keys that contributed middlewares add to the state of one agent, and what each of them takes.

A value that LangGraph cannot apply or keep ends the run long after the hook that returned it; here it is
tried out first, on the channels that the graph is made of and with the serializer of its checkpoints.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.channels import EphemeralValue, LastValue, UntrackedValue
from langgraph.channels.base import BaseChannel
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.graph import StateGraph

from deerflow.extensions.diagnostics import error_text
from deerflow.extensions.hook_names import PLAIN_SCHEMAS

# Where LangGraph puts the saver of a graph into the configuration of its nodes.
_CHECKPOINTER_KEY: Final = "__pregel_checkpointer"
_KEPT_BY_EVERY_AGENT: Final = ("messages", "structured_response")
_OF_EVERY_AGENT: Final = (*_KEPT_BY_EVERY_AGENT, "jump_to")
_TAKING_ANYTHING: Final = (EphemeralValue, LastValue, UntrackedValue)


class StateKeys:
    """What the contributed middlewares of one agent declare; complete once the agent is built."""

    def __init__(self) -> None:
        self._channels: dict[str, list[BaseChannel[Any, Any, Any]]] = defaultdict(list)

    def add(self, schema: type) -> None:
        """Note the keys of one middleware's state."""
        if schema in PLAIN_SCHEMAS:
            return
        for key, channel in StateGraph(schema).channels.items():
            if key not in _OF_EVERY_AGENT and isinstance(channel, BaseChannel):
                channel.key = key
                self._channels[key].append(channel)

    def problem_of(self, key: str, value: Any, state: Any, config: RunnableConfig) -> str | None:
        """Why the graph of `config` could not take `value` for `key`, None where it can."""
        channels = self._channels.get(key, ())
        for channel in channels:
            problem = (
                None if isinstance(channel, _TAKING_ANYTHING) else _problem_of_adding(channel, value, state)
            )
            if problem is not None:
                return f"its {key} cannot be added to the state: {problem}"
        is_kept = key in _KEPT_BY_EVERY_AGENT or bool(channels)
        if not is_kept or any(isinstance(channel, UntrackedValue) for channel in channels):
            return None
        problem = _problem_of_keeping(value, _serializer_of(config))
        return None if problem is None else f"its {key} cannot be kept in a checkpoint: {problem}"


def _serializer_of(config: RunnableConfig) -> SerializerProtocol | None:
    saver = config.get("configurable", {}).get(_CHECKPOINTER_KEY)
    return getattr(saver, "serde", None)


def _problem_of_adding(channel: BaseChannel[Any, Any, Any], value: Any, state: Any) -> str | None:
    """Try a reducer out on copies: it may change what it is given, and the real call comes later."""
    if isinstance(channel, _TAKING_ANYTHING):
        return None
    try:
        is_set = isinstance(state, Mapping) and channel.key in state
        trial = channel.from_checkpoint(deepcopy(state[channel.key])) if is_set else deepcopy(channel)
        values = [deepcopy(value)]
    except Exception:  # noqa: BLE001 - what cannot be copied cannot be tried out
        return None
    try:
        trial.update(values)
    except Exception as error:  # noqa: BLE001 - a reducer is foreign code; what it raises is the answer
        return error_text(error)
    return None


def _problem_of_keeping(value: Any, serializer: SerializerProtocol | None) -> str | None:
    if serializer is None:
        return None
    try:
        serializer.dumps_typed(value)
    except Exception as error:  # noqa: BLE001 - foreign values; what they raise is the answer
        return error_text(error)
    return None
