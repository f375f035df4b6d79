"""The fixture under test, and a clean process-wide set around every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deerflow.extensions import reset_loaded_extensions
from deerflow.testing.plugin import deerflow_host  # noqa: F401 - a fixture, also where it is not installed


@pytest.fixture(autouse=True)
def _clean_process_wide_set() -> Iterator[None]:
    reset_loaded_extensions()
    yield
    reset_loaded_extensions()
