"""Turn whatever a graph streams into JSON: valid UTF-8, never an exception.

Messages are dumped as LangChain dumps them; what JSON cannot hold becomes its text.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import orjson
from langchain_core.messages import BaseMessage
from langgraph.types import Interrupt
from pydantic import BaseModel

_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS


def replace_surrogates(text: str) -> str:
    """The text with every lone surrogate replaced, so that it is valid UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def encode_json(value: Any) -> bytes:
    """One line of JSON for `value`, whatever it holds."""
    try:
        # A copy: orjson's own bytes keep the buffer that they were written to, ten times as long as they are.
        return memoryview(orjson.dumps(value, default=_plain, option=_OPTIONS)).tobytes()
    except (TypeError, ValueError, RecursionError):
        return json.dumps(_sanitised(value, depth=0), ensure_ascii=False, default=str).encode()


def to_json_value(value: Any) -> Any:
    """A detached plain copy of `value`: dicts, lists, strings, numbers, booleans, None."""
    return orjson.loads(encode_json(value))


def _plain(value: Any) -> Any:
    if isinstance(value, BaseMessage):
        return value.model_dump()
    if isinstance(value, Interrupt):
        return {"value": value.value, "id": value.id}
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    return _text_of(value)


def _text_of(value: Any) -> str:
    try:
        return f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else str(value)
    except Exception:  # noqa: BLE001 - a foreign __str__ must not end a run
        return f"<{type(value).__name__}>"


# Deeper than what a client or a checkpoint can sensibly carry; cuts self-referring values as well.
_MAX_DEPTH = 100


def _sanitised(value: Any, *, depth: int) -> Any:
    """The slow path: for lone surrogates, huge integers, odd keys and endless nesting."""
    if depth > _MAX_DEPTH:
        return "<nested too deeply>"
    if isinstance(value, str):
        return replace_surrogates(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else float(value) if abs(value) < 1e300 else str(value)
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if isinstance(value, Mapping):
        return {
            replace_surrogates(str(key)): _sanitised(item, depth=depth + 1) for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_sanitised(item, depth=depth + 1) for item in value]
    return _sanitised(_plain(value), depth=depth + 1)
