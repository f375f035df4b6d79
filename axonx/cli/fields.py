"""Arguments as `--field value` pairs: dotted names nest, values are null, booleans, numbers, JSON or text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from axonx.errors import AxonXError

_JSON_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}


class FieldError(AxonXError, ValueError):
    """The fields on the command line cannot be read."""


def parse_fields(tokens: Sequence[str], schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The nested arguments. Raises `FieldError`, a `ValueError`.

    Where `schema` (a JSON Schema of type object) wants text, a value that looks like something else stays
    text.
    """
    values: dict[str, Any] = {}
    for name, raw in _pairs(tokens):
        path = name.split(".")
        if not all(path):
            raise FieldError(f"--{name}: a name must not be empty")
        _put(values, path, _value(raw, _types_at(schema or {}, path)))
    return values


def _pairs(tokens: Sequence[str]) -> Iterator[tuple[str, str]]:
    rest = iter(tokens)
    for token in rest:
        name, equals, value = token.removeprefix("--").partition("=")
        if not token.startswith("--") or not name:
            raise FieldError(f"expected --field VALUE, got {token!r}")
        if not equals:
            following = next(rest, None)
            if following is None or following.startswith("--"):
                raise FieldError(f"--{name} has no value; write --{name} VALUE, or --{name}=VALUE")
            value = following
        yield name, value


def _put(values: dict[str, Any], path: Sequence[str], value: Any) -> None:
    *parents, last = path
    target = values
    for part in parents:
        target = target.setdefault(part, {})
        if not isinstance(target, dict):
            raise FieldError(f"--{'.'.join(path)}: {part!r} has a value already")
    if last in target:
        raise FieldError(f"--{'.'.join(path)} is given twice")
    target[last] = value


def _value(raw: str, wanted: set[str]) -> Any:
    try:
        value = json.loads(raw, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return raw
    if isinstance(value, float) and not math.isfinite(value):
        return raw
    if "string" in wanted and not wanted & _types_of(value):
        return raw
    return value


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _types_of(value: Any) -> set[str]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"number", "integer"} if float(value).is_integer() else {"number"}
    return {_JSON_TYPES[type(value)]}


def _types_at(schema: Mapping[str, Any], path: Sequence[str]) -> set[str]:
    """The JSON types that a schema names at a path; empty where it names none."""
    found: Any = schema
    for part in path:
        properties = found.get("properties") if isinstance(found, Mapping) else None
        found = properties.get(part) if isinstance(properties, Mapping) else None
    return _named_types(found)


def _named_types(schema: Any) -> set[str]:
    if not isinstance(schema, Mapping):
        return set()
    kind = schema.get("type", ())
    types = {kind} if isinstance(kind, str) else set(kind)
    for keyword in ("anyOf", "oneOf"):
        for choice in schema.get(keyword, ()):
            types |= _named_types(choice)
    return types
