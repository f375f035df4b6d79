"""Leaving out what a client did not select."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from deerflow.errors import InvalidRequestError

Json = dict[str, Any]


def selected(items: list[Json], fields: Collection[str] | None) -> list[Json]:
    """The items with the named fields alone; all fields where none is named."""
    if not fields or not items:
        return items
    unknown = sorted(set(fields) - items[0].keys())
    if unknown:
        known = ", ".join(sorted(items[0]))
        raise InvalidRequestError(f"select: there is no field {', '.join(unknown)}; there are: {known}")
    return [{field: item[field] for field in fields} for item in items]
