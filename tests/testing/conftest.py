"""The fixture under test, and a clean process-wide set around every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deerflow.extensions import diagnostics, loop_blocks, reset_loaded_extensions
from deerflow.testing import ScriptedHost
from deerflow.testing.plugin import deerflow_host  # noqa: F401 - a fixture, also where it is not installed
from deerflow.testing.scripted_host import Limits


@pytest.fixture(autouse=True)
def _clean_process_wide_set() -> Iterator[None]:
    reset_loaded_extensions()
    yield
    reset_loaded_extensions()


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stands still for seconds is no fault of the extensions that these tests play."""
    for module in (diagnostics, loop_blocks):
        monkeypatch.setattr(module, "SLOW_CALL_SECONDS", 30.0)
    defaults = ScriptedHost.__init__.__kwdefaults__
    limits = Limits(hook_seconds=60.0, notification_seconds=60.0)
    monkeypatch.setattr(ScriptedHost.__init__, "__kwdefaults__", {**defaults, "limits": limits})
