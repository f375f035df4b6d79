"""A clean process-wide set of extensions around every test, and Redis for those that ask for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.redis_server import redis_server

from deerflow.extensions import reset_loaded_extensions

__all__ = ["redis_server"]


@pytest.fixture(autouse=True)
def _clean_process_wide_set() -> Iterator[None]:
    reset_loaded_extensions()
    yield
    reset_loaded_extensions()
