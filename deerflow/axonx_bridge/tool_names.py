"""From the names of Jobs to names that every provider of models takes for a tool."""

from __future__ import annotations

import re
from collections.abc import Iterable

from deerflow.errors import ConfigError

MAX_CHARACTERS = 64

_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_-]")


def tool_name(name: str, prefix: str = "") -> str:
    """`name` with `_` for each character that no tool's name may have, cut to 64 characters."""
    return f"{prefix}{_NOT_ALLOWED.sub('_', name)}"[:MAX_CHARACTERS]


def check_clashes(named: Iterable[tuple[str, str]]) -> None:
    """Raise `ConfigError` where two of `(what, tool name)` would have one name; all of them are listed."""
    owners: dict[str, list[str]] = {}
    for what, name in named:
        owners.setdefault(name, []).append(what)
    clashes = [
        f"{' and '.join(both)} would both be the tool {name!r}: give one of them a name of its own, "
        "as in jobs: [{name: ..., tool: ...}]"
        for name, both in owners.items()
        if len(both) > 1
    ]
    if clashes:
        raise ConfigError("\n".join(clashes))
