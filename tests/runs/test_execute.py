"""What the log says of runs."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from support.hosts import scripted_host, start

_LOGGER = "deerflow.runs.execute"


async def _log_of(home: Path, turn: dict[str, Any], caplog: pytest.LogCaptureFixture) -> tuple[str, str]:
    """The log of one run, and what it is to begin with."""
    caplog.set_level(logging.INFO, _LOGGER)
    async with scripted_host(home, [{"when": "", "turns": [turn]}]) as host:
        run = await start(host, "hello")
        await run.ended.wait()
    return caplog.text, f"run {run.run_id} on thread {run.thread_id} failed: "


async def test_a_failed_run_is_a_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text, begin = await _log_of(tmp_path, {"error": "no quota left"}, caplog)
    assert f"{begin}ScriptedModelError: no quota left" in text
    assert [record.levelno for record in caplog.records if record.name == _LOGGER] == [logging.ERROR]


async def test_the_log_shows_where_an_unexpected_error_came_from(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    looping = {"tool_calls": [{"name": "list_files", "args": {}}]}
    caplog.set_level(logging.INFO, _LOGGER)
    async with scripted_host(tmp_path, [{"when": "", "turns": [looping]}]) as host:
        run = await start(host, "hello", config={"recursion_limit": 3})
        await run.ended.wait()
    (record,) = [record for record in caplog.records if record.name == _LOGGER]
    assert "GraphRecursionError" in record.getMessage()
    assert record.exc_info


async def test_a_run_that_ends_well_leaves_no_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text, _ = await _log_of(tmp_path, {"text": "hello"}, caplog)
    assert text == ""
