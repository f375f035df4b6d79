"""Many runs, one after another, leave the process as they found it."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from support.extensions import Seen, installed, recording
from support.hosts import finished, scripted_host

from deerflow.agents.run_scope import RunScope
from deerflow.runs.active import ActiveRun

MIB = 1024 * 1024


def _resident_bytes() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def _alive(kind: type) -> int:
    return sum(issubclass(type(thing), kind) for thing in gc.get_objects())


@dataclass(frozen=True)
class Series:
    """How many runs, from which one on memory is measured, and by how much it may grow."""

    count: int
    settled_after: int
    grown_bytes: int


SERIES = [
    # What 600 runs would leave if only their events were kept: some 2 kB each, twice over.
    pytest.param(Series(1_000, 400, 16 * MIB), id="thousand"),
    pytest.param(
        Series(10_000, 1_000, 10 * MIB), id="soak", marks=[pytest.mark.soak, pytest.mark.timeout(3600)]
    ),
]


@pytest.mark.parametrize("series", SERIES)
async def test_many_runs_leave_memory_flat_and_no_run_behind(tmp_path: Path, series: Series) -> None:
    gc.collect()
    alive_before = {kind: _alive(kind) for kind in (ActiveRun, RunScope)}  # other tests may have left some
    seen = Seen()
    with installed(recording(seen)):
        async with scripted_host(tmp_path, database={"backend": "sqlite"}) as host:
            tasks_before = asyncio.all_tasks()
            for number in range(1, series.count + 1):
                run = await finished(host, "hello", stream_modes=("values",))
                assert run.ending is not None and run.ending.status == "success"
                assert seen.outcomes
                seen.forget()
                if number == series.settled_after:
                    resident_before = _resident_bytes()
            del run
            async with asyncio.timeout(30):
                while asyncio.all_tasks() - tasks_before:
                    await asyncio.sleep(0.01)
            grown_bytes = _resident_bytes() - resident_before
            for kind, before in alive_before.items():
                assert _alive(kind) <= before
    print(f"{series.count} runs: {grown_bytes / MIB:.1f} MiB more than after {series.settled_after}")
    assert grown_bytes < series.grown_bytes
