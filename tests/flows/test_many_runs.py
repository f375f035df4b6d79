"""A thousand runs, one after another, leave the process as they found it."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import psutil
from support.extensions import Seen, installed, recording
from support.hosts import finished, scripted_host

from deerflow.agents.run_scope import RunScope
from deerflow.runs.active import ActiveRun


def _alive(kind: type) -> int:
    return sum(issubclass(type(thing), kind) for thing in gc.get_objects())


async def test_a_thousand_runs_leave_memory_flat_and_no_run_behind(tmp_path: Path) -> None:
    process = psutil.Process()
    gc.collect()
    alive_before = (_alive(ActiveRun), _alive(RunScope))  # other tests of this process may have left some
    with installed(recording(Seen())):
        async with scripted_host(tmp_path, database={"backend": "sqlite"}) as host:
            tasks_before = asyncio.all_tasks()
            for number in range(1000):
                run = await finished(host, "hello", stream_modes=("values",))
                assert run.ending is not None and run.ending.status == "success"
                if number == 400:
                    gc.collect()
                    resident_before = process.memory_info().rss
            del run
            await asyncio.sleep(0.05)
            gc.collect()
            grown_bytes = process.memory_info().rss - resident_before
            alive = (_alive(ActiveRun), _alive(RunScope))
            assert alive <= alive_before
            assert asyncio.all_tasks() == tasks_before
    # What 600 runs would leave if only their events were kept: some 2 kB each, twice over.
    assert grown_bytes < 16 * 1024 * 1024
