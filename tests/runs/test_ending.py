"""How the end of a run is read off its story."""

from __future__ import annotations

import asyncio
import gc

import pytest

from deerflow.runs.ending import ROLLBACK, Ending, ending_of


async def test_what_a_run_raised_that_is_rolled_back_is_no_error_that_nobody_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail() -> Ending:
        raise LookupError("no")

    story = asyncio.create_task(fail())
    await asyncio.wait({story})
    assert ending_of(story, ROLLBACK).stop_reason == ROLLBACK
    del story
    gc.collect()
    assert caplog.records == []
