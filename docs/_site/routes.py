"""The routes of the Gateway, as it declares them itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deerflow.gateway.app import create_app

_CONFIG = {"auth": {"mode": "users"}}


def markdown() -> str:
    """A table for each group of routes."""
    paths: dict[str, dict[str, Any]] = create_app(_CONFIG).openapi()["paths"]
    groups: dict[str, list[str]] = {}
    for path, operations in paths.items():
        for method, operation in operations.items():
            groups.setdefault(operation.get("tags", ["other"])[0], []).append(_row(method, path, operation))
    return "\n".join(line for tag, rows in sorted(groups.items()) for line in _table(tag, rows))


def _row(method: str, path: str, operation: dict[str, Any]) -> str:
    about = " ".join(operation.get("description", "").split()).replace("|", "\\|")
    return f"| `{method.upper()} {path}` | {about} |"


def _table(tag: str, rows: list[str]) -> Iterator[str]:
    yield from (f"### {tag}", "", "| request | answer |", "|---|---|", *rows, "")
