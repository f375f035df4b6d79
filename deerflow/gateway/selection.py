"""Leaving out what a client did not select, and lifting out what it named by a path."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from deerflow.errors import InvalidRequestError

Json = dict[str, Any]

EXTRACTABLE: Final = ("values", "metadata", "config", "interrupts")
_ALIAS = r"[A-Za-z_][A-Za-z0-9_]*"
_PATH = re.compile(rf"({'|'.join(EXTRACTABLE)})((\.[^.\[\]]+)|(\[-?\d{{1,9}}\]))*")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(-?\d+)\]")
_VALUES = "values."


def _checked_path(path: str) -> str:
    if not _PATH.fullmatch(path):
        raise ValueError(
            f"a path begins with {', '.join(EXTRACTABLE)} and goes on with .key or [index], "
            "such as values.messages[-1].content"
        )
    return path


Path = Annotated[str, Field(max_length=500), AfterValidator(_checked_path)]
Alias = Annotated[str, Field(pattern=f"^{_ALIAS}$", max_length=100)]
Extract = Annotated[dict[Alias, Path], Field(max_length=10)]


def selected(items: list[Json], fields: Collection[str] | None) -> list[Json]:
    """The items with the named fields alone; all fields where none is named."""
    if not fields or not items:
        return items
    unknown = sorted(set(fields) - items[0].keys())
    if unknown:
        known = ", ".join(sorted(items[0]))
        raise InvalidRequestError(f"select: there is no field {', '.join(unknown)}; there are: {known}")
    return [{field: item[field] for field in fields} for item in items]


def selected_state(state: Json, fields: Collection[str] | None) -> Json:
    """A state with the named fields alone; `values.<key>` names one key of the values."""
    if not fields:
        return state
    keys = {field.removeprefix(_VALUES) for field in fields if field.startswith(_VALUES)}
    whole = [field for field in fields if not field.startswith(_VALUES)]
    (chosen,) = selected([state], [*whole, "values"] if keys else whole)
    if keys and "values" not in whole:
        chosen = {**chosen, "values": {key: chosen["values"][key] for key in keys & chosen["values"].keys()}}
    return chosen


def extracted(item: Mapping[str, Any], paths: Mapping[str, str]) -> Json:
    """What stands in `item`, a JSON value, at each path; null where nothing does."""
    return {alias: _value_at(item, path) for alias, path in paths.items()}


def _value_at(item: Any, path: str) -> Any:
    root = re.match(r"\w+", path)
    value = item.get(root[0]) if root else None
    for key, index in _STEP.findall(path):
        value = _member(value, key) if key else _element(value, int(index))
    return value


def _member(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _element(value: Any, index: int) -> Any:
    if not isinstance(value, list) or not -len(value) <= index < len(value):
        return None
    return value[index]
