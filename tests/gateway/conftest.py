"""A clean process-wide set of extensions around every test, and servers for those that ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.databases import postgres_database, postgres_url
from support.redis_server import redis_server

from deerflow.extensions import reset_loaded_extensions

__all__ = ["postgres_database", "postgres_url", "redis_server"]


@pytest.fixture(autouse=True)
def _clean_process_wide_set() -> Iterator[None]:
    reset_loaded_extensions()
    yield
    reset_loaded_extensions()
