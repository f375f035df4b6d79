"""What the tests of the database layer share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from support.databases import database_config, lasting_config, postgres_database, postgres_url

from deerflow.config import AppConfig
from deerflow.persistence import Database, open_database

__all__ = ["database_config", "lasting_config", "postgres_database", "postgres_url"]


@pytest.fixture
async def database(database_config: AppConfig) -> AsyncIterator[Database]:
    """An open, empty database; a test that takes it runs on every backend."""
    async with open_database(database_config) as opened:
        yield opened
