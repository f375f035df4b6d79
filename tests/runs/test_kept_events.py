"""How much memory the events of many runs take that nobody reads."""

from __future__ import annotations

import tracemalloc
from types import MappingProxyType

from deerflow.runs.ending import aborted
from deerflow.runs.events.log import EventLog
from deerflow.runs.recent import KEPT_BYTES, EndedRun, RecentRuns

MIB = 1024 * 1024
RUNS, SNAPSHOTS, SNAPSHOT_BYTES = 15, 100, 500_000


def test_large_states_of_many_runs_stay_within_the_bound_of_bytes() -> None:
    runs = RecentRuns()
    tracemalloc.start()
    try:
        _end_runs(runs)
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # What is kept, the log that is being written, and events on their way.
    assert most_bytes < KEPT_BYTES + 32 * MIB + 16 * MIB


def _end_runs(runs: RecentRuns) -> None:
    for number in range(RUNS):  # some 750 MB altogether
        log = EventLog()
        for _ in range(SNAPSHOTS):
            log.publish("values", {"messages": ["x" * SNAPSHOT_BYTES]})
        assert log.size_bytes <= 32 * MIB
        (gap, *_) = log.reader(0).available()
        assert gap.name == "gap" and gap.data["after"] == 0
        log.close()
        runs.keep(EndedRun(f"run {number}", "t", None, log, aborted("cancelled"), MappingProxyType({})))
