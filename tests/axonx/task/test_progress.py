from __future__ import annotations

import math
import threading
from datetime import UTC, datetime

import pytest

from axonx.components.job import ProgressEvent
from axonx.task.progress import TaskProgress


class Recorder:
    def __init__(self) -> None:
        self.events: list[ProgressEvent] = []
        self.progress = TaskProgress(self.events.append, lambda: datetime.now(UTC))

    def last(self, name: str) -> ProgressEvent:
        return [event for event in self.events if event.name == name][-1]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def test_a_step_runs_from_zero_to_done(recorder: Recorder):
    recorder.progress.begin_step("load")
    recorder.progress.report(40, None, {"phase": "half"})
    recorder.progress.end_step()

    assert [(event.state, event.percentage) for event in recorder.events] == [
        ("running", 0),
        ("running", 40),
        ("done", 100),
    ]
    assert recorder.last("load").phase == "half"
    assert recorder.last("load").started_at and recorder.last("load").finished_at


def test_a_failed_step_keeps_its_percentage_and_tells_why(recorder: Recorder):
    recorder.progress.begin_step("load")
    recorder.progress.report(40, None, {})
    recorder.progress.end_step("ValueError: no")

    last = recorder.last("load")
    assert (last.state, last.percentage, last.error) == ("failed", 40, "ValueError: no")


@pytest.mark.parametrize("percentage", [-0.1, 100.1, math.nan])
def test_percentages_outside_of_the_range_are_refused(recorder: Recorder, percentage: float):
    recorder.progress.begin_step("load")

    with pytest.raises(ValueError, match="percentage must be between 0 and 100"):
        recorder.progress.report(percentage, None, {})


def test_percentages_cannot_move_backwards(recorder: Recorder):
    recorder.progress.begin_step("load")
    recorder.progress.report(50, None, {})
    recorder.progress.report(50, None, {})
    recorder.progress.report(50, "part", {})

    with pytest.raises(ValueError, match="percentage cannot move backwards"):
        recorder.progress.report(49, None, {})
    with pytest.raises(ValueError, match="percentage cannot move backwards"):
        recorder.progress.report(49, "part", {})


def test_progress_is_reported_only_while_a_step_runs(recorder: Recorder):
    with pytest.raises(RuntimeError, match="only while a step"):
        recorder.progress.report(1, None, {})
    recorder.progress.begin_step("load")
    recorder.progress.end_step()
    with pytest.raises(RuntimeError, match="only while a step"):
        recorder.progress.report(1, None, {})


def test_substeps_belong_to_their_step_and_end_with_it(recorder: Recorder):
    recorder.progress.begin_step("load")
    recorder.progress.report(None, "later", {"state": "waiting"})
    recorder.progress.report(10, "now", {"completed": 1, "total": 10, "unit": "files"})
    recorder.progress.report(100, "before", {"state": "done"})
    recorder.progress.end_step()

    assert {event.parent for event in recorder.events if event.name != "load"} == {"load"}
    assert recorder.last("later").state == "skipped"
    assert (recorder.last("now").state, recorder.last("now").percentage) == ("done", 100)
    assert [event.state for event in recorder.events if event.name == "before"] == ["done"]
    assert recorder.last("before").finished_at is not None


def test_open_substeps_of_a_failed_step_have_failed(recorder: Recorder):
    recorder.progress.begin_step("load")
    recorder.progress.report(10, "now", {})
    recorder.progress.end_step("boom")

    assert recorder.last("now").state == "failed"


def test_the_same_substep_in_two_steps_is_two_substeps(recorder: Recorder):
    for step in ("load", "save"):
        recorder.progress.begin_step(step)
        recorder.progress.report(10, "file", {})
        recorder.progress.end_step()

    assert [(s.parent, s.name) for s in recorder.progress.snapshots] == [
        (None, "load"),
        ("load", "file"),
        (None, "save"),
        ("save", "file"),
    ]


def test_a_step_that_comes_again_gets_a_number(recorder: Recorder):
    for _ in range(3):
        recorder.progress.begin_step("load")
        recorder.progress.end_step()

    assert [snapshot.name for snapshot in recorder.progress.snapshots] == ["load", "load-2", "load-3"]


def test_unknown_fields_are_refused_and_change_nothing(recorder: Recorder):
    recorder.progress.begin_step("load")

    for changes in ({"percent": 1}, {"state": "happy"}, {"completed": -1}, {"label": "\ud800"}):
        with pytest.raises(ValueError):
            recorder.progress.report(None, None, dict(changes))

    assert recorder.progress.snapshots == recorder.events


def test_numbers_that_json_does_not_have_become_none(recorder: Recorder):
    recorder.progress.begin_step("fit")
    recorder.progress.report(None, None, {"metrics": {"loss": math.nan, "all": [1.5, -math.inf]}})

    assert recorder.last("fit").metrics == {"loss": None, "all": [1.5, None]}


def test_a_tight_loop_does_not_fill_the_disk_and_ends_with_its_last_state(recorder: Recorder):
    recorder.progress.begin_step("fit")
    for number in range(20_000):
        recorder.progress.report(None, None, {"completed": number})
    recorder.progress.end_step()

    assert 1000 < len(recorder.events) < 3000
    assert recorder.last("fit").completed == 19_999
    assert recorder.last("fit").state == "done"


def test_the_number_of_substeps_is_bounded(recorder: Recorder):
    recorder.progress.begin_step("fit")

    with pytest.raises(ValueError, match="at most 10000 steps and substeps"):
        for number in range(10_001):
            recorder.progress.report(None, f"item {number}", {})


def test_threads_of_a_task_may_report(recorder: Recorder):
    recorder.progress.begin_step("fit")

    def work(number: int) -> None:
        for done in range(50):
            recorder.progress.report(None, f"thread {number}", {"completed": done})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [recorder.last(f"thread {number}").completed for number in range(4)] == [49] * 4
    assert len(recorder.events) == 201
