"""A clean process-wide set of extensions around every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deerflow.extensions import reset_loaded_extensions


@pytest.fixture(autouse=True)
def _clean_process_wide_set() -> Iterator[None]:
    reset_loaded_extensions()
    yield
    reset_loaded_extensions()
