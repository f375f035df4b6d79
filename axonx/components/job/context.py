"""The values that the Steps of one call share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Self

_IMMUTABLE = frozenset({str, int, float, bool, type(None)})


class RuntimeContext(dict[str, Any]):
    """The arguments of one call, by name; every Step of the call reads and writes the same one."""

    @classmethod
    def merge(
        cls, defaults: Mapping[str, Any], arguments: Mapping[str, Any], system: Mapping[str, Any]
    ) -> Self:
        """Deep copies of the three, later over earlier: mappings key by key, other values as a whole.

        Raises whatever an argument raises that cannot be copied.
        """
        context = cls(copied(defaults)) if defaults else cls()
        _overlay(context, copied(arguments))
        if system:
            _overlay(context, copied(system))
        return context


def copied(value: Any) -> Any:
    """A deep copy, several times as fast as `copy.deepcopy` for what JSON can hold."""
    return _copied(value, {}, copy.deepcopy)


def copied_containers(value: Any) -> Any:
    """A copy of the dicts and lists in `value`; everything else in it is shared."""
    return _copied(value, {}, _same)


def _same(value: Any, memo: dict[int, Any]) -> Any:
    return value


def _copied(value: Any, memo: dict[int, Any], leaf: Callable[[Any, dict[int, Any]], Any]) -> Any:
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if kind is not dict and kind is not list:
        return leaf(value, memo)
    known = memo.get(id(value))
    if known is not None:
        return known
    if kind is dict:
        mapping: dict[Any, Any] = {}
        memo[id(value)] = mapping
        for key, item in value.items():
            mapping[key] = item if type(item) in _IMMUTABLE else _copied(item, memo, leaf)
        return mapping
    items: list[Any] = []
    memo[id(value)] = items
    items.extend(item if type(item) in _IMMUTABLE else _copied(item, memo, leaf) for item in value)
    return items


def _overlay(target: dict[str, Any], source: Mapping[str, Any]) -> None:
    for key, value in source.items():
        present = target.get(key)
        if isinstance(present, dict) and isinstance(value, Mapping):
            _overlay(present, value)
        else:
            target[key] = value
