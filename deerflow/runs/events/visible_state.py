"""What of a graph's state clients may see, wherever it turns up: the keys of its output, as in `values`.

All others are what middlewares keep for themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, cast

from langchain_core.messages import ToolCall
from langgraph.types import Command, Send


class VisibleState:
    """The visible part of what nodes are given and give; copies, which hold what the originals hold."""

    def __init__(self, keys: Collection[str]) -> None:
        self._keys = frozenset(keys)

    def given(self, value: Any) -> Any:
        """What a node is given: the state, or tool calls."""
        calls = tool_calls_in(value)
        if calls:
            return calls
        return self._part(value) if isinstance(value, Mapping) else None

    def written(self, value: Any) -> Any:
        """What a node gives: an update of the state, a command, or several of them."""
        if isinstance(value, Command):
            return replace(value, update=self.written(value.update), goto=_places(value.goto))
        if isinstance(value, Mapping):
            return self._part(value)
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
            return value if value[0] in self._keys else None
        if isinstance(value, list | tuple):
            return [self.written(part) for part in value]
        return None

    def _part(self, state: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in state.items() if key in self._keys}


def tool_calls_in(value: Any) -> list[ToolCall]:
    """The tool calls that a node is to carry out: they come alone, or beside the state."""
    beside = value.get("tool_call") if isinstance(value, Mapping) else None
    found = [beside] if beside is not None else value if isinstance(value, list) else []
    return [
        cast(ToolCall, call) for call in found if isinstance(call, dict) and call.get("type") == "tool_call"
    ]


def _places(goto: Any) -> Any:
    """Where to, without what is sent there: that may be any part of the state."""
    if isinstance(goto, Send):
        return goto.node
    return type(goto)(map(_places, goto)) if isinstance(goto, list | tuple) else goto
