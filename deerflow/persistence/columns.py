"""Column types that mean the same on every backend: moments, text and JSON."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import JSON, String, Text
from sqlalchemy.dialects.postgresql import JSONB, TIMESTAMP
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

from deerflow.persistence.errors import UnstorableValueError

REPLACEMENT = "\ufffd"
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Return `text` as valid UTF-8 without NUL: what cannot be stored becomes U+FFFD.

    PostgreSQL refuses NUL in text and in JSON; no driver takes half a surrogate pair.
    """
    if not _UNSTORABLE.search(text):
        return text
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return paired.replace("\x00", REPLACEMENT)


def dump_json(value: Any) -> str:
    """Return `value` as JSON that every backend can hold; NaN and infinities become null.

    Raises `UnstorableValueError` for what JSON has no form for.
    """
    try:
        encoded = orjson.dumps(value)
    except TypeError:  # a lone surrogate, a key that is no string, an integer beyond 64 bits, or no JSON
        return _dump_unusual(value)
    if b"\\u0000" in encoded:
        return _dump_unusual(value)
    return encoded.decode()


def load_json(text: str | bytes) -> Any:
    """Return the value of JSON text."""
    return orjson.loads(text)


def _dump_unusual(value: Any) -> str:
    try:
        return json.dumps(_clean(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise UnstorableValueError(f"a value cannot be kept as JSON: {error}") from error


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


class UtcDateTime(TypeDecorator[datetime]):
    """A moment: aware in, aware and in UTC out. SQLite keeps it as ISO 8601 that sorts by time."""

    impl = String(32)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(TIMESTAMP(timezone=True))
        return dialect.type_descriptor(String(32))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        if value.tzinfo is None:
            raise UnstorableValueError(f"{value.isoformat()} has no time zone: pass an aware datetime")
        moment = value.astimezone(UTC)
        return moment if dialect.name == "postgresql" else moment.isoformat(timespec="microseconds")

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


class CleanText(TypeDecorator[str]):
    """Text that may come from anywhere; see `clean_text`."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        # A plain string: psycopg would send an enumeration's name instead of its value.
        return None if value is None else str.__str__(clean_text(value))


class JsonValue(TypeDecorator[Any]):
    """Any JSON value; a fresh one each time it is read. `searchable` ones queries may look into.

    Text on SQLite, whose own JSON columns turn a bare 1.0 into 1. JSON on PostgreSQL, which keeps the order
    of keys; JSONB where it is searched.
    """

    impl = Text
    cache_ok = True

    def __init__(self, *, searchable: bool = False) -> None:
        super().__init__()
        self.searchable = searchable

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(JSONB() if self.searchable else JSON())
        return dialect.type_descriptor(Text())

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return value if dialect.name == "postgresql" else dump_json(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return value if dialect.name == "postgresql" or value is None else load_json(value)
