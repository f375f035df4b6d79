"""The file that keeps what became of a schedule's triggers."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from datetime import UTC, datetime, timedelta
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from axonx.scheduler.history import MOST_RUNS, HistoryFile, ScheduleHistory, ScheduleRun

NOW = datetime.now(UTC)


def a_run(days_ago: float = 0, **changes: object) -> ScheduleRun:
    moment = NOW - timedelta(days=days_ago)
    return ScheduleRun.model_validate(
        {"scheduled_at": moment, "finished_at": moment, "state": "succeeded", **changes}
    )


def a_file(tmp_path: Path) -> HistoryFile:
    return HistoryFile(tmp_path, "nightly/ä", timedelta(days=7))


def test_the_file_is_named_after_the_hash_of_the_schedule(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.append(a_run())
    expected = tmp_path / "schedules" / f"{hashlib.sha256('nightly/ä'.encode()).hexdigest()}.json"
    assert file.path == expected
    document = json.loads(expected.read_text("utf-8"))
    assert document["schedule"] == "nightly/ä"
    assert document["runs"][0]["state"] == "succeeded"


def test_old_runs_are_dropped_when_read_and_when_written(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.append(a_run(days_ago=8))
    file.append(a_run(days_ago=6.9))
    assert [run.scheduled_at for run in file.read()] == [NOW - timedelta(days=6.9)]
    file.append(a_run())
    assert len(json.loads(file.path.read_bytes())["runs"]) == 2


def test_the_number_of_runs_is_bounded(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.append(a_run())
    full = ScheduleHistory(schedule="nightly/ä", runs=[a_run(0.5)] * MOST_RUNS)
    file.path.write_text(full.model_dump_json())
    file.append(a_run(state="failed"))
    runs = file.read()
    assert len(runs) == MOST_RUNS
    assert runs[-1].state == "failed"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": 2}', b"\xff"])
def test_a_damaged_file_counts_as_empty_and_is_replaced(tmp_path: Path, content: bytes) -> None:
    file = a_file(tmp_path)
    file.append(a_run())
    file.path.write_bytes(content)
    assert file.read() == []
    file.append(a_run())
    assert len(file.read()) == 1


def test_text_that_is_no_unicode_is_written_anyway(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.append(a_run(state="failed", error="\ud800"))
    assert file.read()[0].state == "failed"


def _append_many(tmp_path: Path, both: Barrier) -> None:
    both.wait()
    for _ in range(10):
        a_file(tmp_path).append(a_run())


def test_two_processes_lose_no_run(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")  # a fork would copy locks that other threads hold
    both = context.Barrier(2)
    processes = [context.Process(target=_append_many, args=(tmp_path, both)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert len(a_file(tmp_path).read()) == 20
    assert not list(file_names(tmp_path, ".tmp"))


def file_names(tmp_path: Path, suffix: str) -> list[str]:
    return [path.name for path in (tmp_path / "schedules").iterdir() if path.suffix == suffix]
