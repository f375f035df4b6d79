"""Whether one JSON value contains another, as PostgreSQL's `@>` says; SQLite has no such operator."""

from __future__ import annotations

from typing import Any

from deerflow.persistence.columns import load_json


def json_contains(whole_json: str | None, part_json: str) -> bool:
    """Tell whether the first JSON text contains the second."""
    return whole_json is not None and contains(load_json(whole_json), load_json(part_json))


def contains(whole: Any, part: Any) -> bool:
    """Tell whether `part` is in `whole`: objects by their keys, arrays by their elements, in any order."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and contains(whole[key], item) for key, item in part.items()
        )
    if isinstance(part, list):
        return isinstance(whole, list) and all(
            any(contains(candidate, item) for candidate in whole) for item in part
        )
    return _same_scalar(whole, part)


def _same_scalar(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)
