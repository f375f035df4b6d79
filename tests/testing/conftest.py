"""The fixture under test, and a clean process-wide set around every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deerflow.extensions import diagnostics, loop_blocks, reset_loaded_extensions
from deerflow.testing.plugin import deerflow_host  # noqa: F401 - a fixture, also where it is not installed


@pytest.fixture(autouse=True)
def _clean_process_wide_set() -> Iterator[None]:
    reset_loaded_extensions()
    yield
    reset_loaded_extensions()


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stands still for a second is no fault of the extensions that these tests play."""
    for module in (diagnostics, loop_blocks):
        monkeypatch.setattr(module, "SLOW_CALL_SECONDS", 30.0)
