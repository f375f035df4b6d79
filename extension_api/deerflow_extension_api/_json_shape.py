"""Values that JSON cannot hold, brought into a shape that it can, equal in every process."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

from .hashing import canonical_json

_TEXT_TELLS_ALL = (PurePath, date, time, timedelta, Decimal, UUID)
_MOST_LEVELS = 64


def json_shape(value: Any) -> Any:
    """Return `value` such that `canonical_json` takes it; what JSON can hold stays as it is.

    Sets are sorted; bytes, enum members, dataclasses, paths, dates and decimals keep their contents, classes
    and functions their name. Anything else counts by its type alone, since a `repr` may hold an address; so
    does what contains itself, and what lies more than 64 levels deep.
    """
    return _shape(value, ())


def _shape(value: Any, around: tuple[int, ...]) -> Any:
    try:
        if _is_scalar(value):
            return _shape_scalar(value)
        if len(around) < _MOST_LEVELS and id(value) not in around:
            return _shape_container(value, (*around, id(value)))
        return _type_alone(value)
    except Exception:  # noqa: BLE001 - reading a foreign object may fail in any way; then its type counts
        return _type_alone(value)


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bytes | bytearray | Enum)


def _shape_scalar(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return {"$float": str(float(value))}
        case None | str() | int() | float():
            return value
        case Enum():
            return {"$enum": _name(type(value)), "name": value.name}
        case _:
            return {"$bytes": value.hex()}


def _shape_container(value: Any, around: tuple[int, ...]) -> Any:
    if isinstance(value, Mapping):
        return _shape_mapping(value, around)
    if isinstance(value, list | tuple):
        return [_shape(item, around) for item in value]
    if isinstance(value, Set):
        return {"$set": sorted((_shape(item, around) for item in value), key=canonical_json)}
    if isinstance(value, _TEXT_TELLS_ALL):
        return {"$type": _name(type(value)), "text": str(value)}
    if is_dataclass(value) and not isinstance(value, type):
        parts = {part.name: _shape(getattr(value, part.name), around) for part in fields(value)}
        return {"$type": _name(type(value)), "fields": parts}
    if isinstance(getattr(value, "__qualname__", None), str):
        return {"$name": _name(value)}
    return _type_alone(value)


def _shape_mapping(value: Mapping[Any, Any], around: tuple[int, ...]) -> Any:
    if all(isinstance(key, str) for key in value):
        return {key: _shape(item, around) for key, item in value.items()}
    pairs = ([_shape(key, around), _shape(item, around)] for key, item in value.items())
    return {"$mapping": sorted(pairs, key=canonical_json)}


def _type_alone(value: Any) -> dict[str, str]:
    return {"$type": _name(type(value))}


def _name(named: Any) -> str:
    return f"{named.__module__}.{named.__qualname__}"
