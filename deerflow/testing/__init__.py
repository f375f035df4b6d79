"""Try an extension on a real host: offline, in this process, in milliseconds.

The pytest plugin gives the fixture `deerflow_host`; the names below serve any other test runner as well.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deerflow.testing.comparison import assert_undisturbed, differences
    from deerflow.testing.conformance import Cell, Conformance, check_conformance
    from deerflow.testing.loading import Extension, load_extension
    from deerflow.testing.scenarios import (
        BROKEN_MODEL,
        BROKEN_TOOL,
        CANCELLATION,
        COMPACTION,
        DELEGATION,
        FLAKY_MODEL,
        LEAD,
        SCENARIOS,
        SHUTDOWN,
        Scenario,
    )
    from deerflow.testing.scripted_host import HttpAnswer, ScriptedHost
    from deerflow.testing.seen import SeenRun, SeenSystemCall, SeenTask

__all__ = [
    "BROKEN_MODEL",
    "BROKEN_TOOL",
    "CANCELLATION",
    "COMPACTION",
    "DELEGATION",
    "FLAKY_MODEL",
    "LEAD",
    "SCENARIOS",
    "SHUTDOWN",
    "Cell",
    "Conformance",
    "Extension",
    "HttpAnswer",
    "Scenario",
    "ScriptedHost",
    "SeenRun",
    "SeenSystemCall",
    "SeenTask",
    "assert_undisturbed",
    "check_conformance",
    "differences",
    "load_extension",
]

_HOMES = {
    "comparison": ("assert_undisturbed", "differences"),
    "conformance": ("Cell", "Conformance", "check_conformance"),
    "loading": ("Extension", "load_extension"),
    "scripted_host": ("HttpAnswer", "ScriptedHost"),
    "seen": ("SeenRun", "SeenSystemCall", "SeenTask"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import what is asked for: pytest loads this package at each start, LangGraph takes a second."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOME_OF.get(name, "scenarios")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    return value
