"""One connection to a SQLite file and its thread, for as long as a block lasts."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from deerflow.persistence import DatabaseUnavailableError
from deerflow.persistence.sqlite_thread import open_sqlite_thread


async def test_the_connection_and_its_thread_end_with_the_block(tmp_path: Path) -> None:
    async with open_sqlite_thread(tmp_path / "a.db", name="of-a-test") as opened:
        assert await opened.run(lambda: opened.connection.execute("SELECT 1").fetchone()) == (1,)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened.connection.execute("SELECT 1")
    with pytest.raises(DatabaseUnavailableError, match="closed"):
        await opened.run(lambda: None)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("of-a-test")]
