from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from filelock import FileLock
from support.task_records import a_record, an_ended_process

from axonx.task import TaskMetadata, TaskState, TaskType
from axonx.task.errors import (
    ActiveTaskError,
    TaskLockError,
    TaskNotFoundError,
    TaskRecordError,
    TaskRunChangedError,
)
from axonx.task.outcome import settle_abandoned
from axonx.task.process import this_process
from axonx.task.records import TaskRecords

TASK = "base#demo#one"


def ended(record: TaskMetadata, state: TaskState = TaskState.SUCCEEDED) -> TaskMetadata:
    return record.ended(state, record.created_at)


def files_of(records: TaskRecords, task_id: str = TASK) -> set[str]:
    return {path.name for path in records.layout.task_dir(task_id).iterdir()}


def test_a_claimed_record_can_be_read_again(records: TaskRecords):
    record = a_record(TASK, input_params={"x": [1, {"y": None}]})

    records.claim(record)

    assert records.read(TASK) == record
    assert records.read_run(TASK, record.run_id) == record
    assert files_of(records) == {"metadata.json", "persistent"}


def test_a_task_without_record_is_not_found(records: TaskRecords):
    assert records.find(TASK) is None
    with pytest.raises(FileNotFoundError, match=f"Task not found: {TASK}"):
        records.read(TASK)
    with pytest.raises(TaskNotFoundError):
        records.update(TASK, "run", ended)
    with pytest.raises(TaskNotFoundError):
        records.delete(TASK)
    assert records.find_all() == []


@pytest.mark.parametrize("task_id", ["../../etc", "base#demo#..", "base#../demo#x", "x"])
def test_nothing_outside_of_the_workspace_can_be_named(records: TaskRecords, task_id: str):
    for ask in (records.read, records.delete):
        with pytest.raises(ValueError, match="Invalid Task ID"):
            ask(task_id)


def test_an_active_task_cannot_be_claimed_again(records: TaskRecords):
    record = a_record(TASK)
    records.claim(record)

    with pytest.raises(FileExistsError, match=f"Active Task already exists: {TASK}"):
        records.claim(a_record(TASK))

    assert records.read(TASK) == record


def test_a_rerun_keeps_the_persistent_files_only(records: TaskRecords):
    first = a_record(TASK)
    records.claim(first)
    directory = records.layout.task_dir(TASK)
    (directory / "out" / "deep").mkdir(parents=True)
    (directory / "run.log").touch()
    (directory / "persistent" / "kept").touch()
    records.update(TASK, first.run_id, ended)

    records.claim(second := a_record(TASK))

    assert records.read(TASK) == second
    assert files_of(records) == {"metadata.json", "persistent"}
    assert (directory / "persistent" / "kept").exists()
    assert list(records.layout.trash_dir().iterdir()) == []


def test_a_record_that_ended_is_never_changed(records: TaskRecords):
    record = a_record(TASK)
    records.claim(record)
    final = records.update(TASK, record.run_id, ended)

    assert records.update(TASK, record.run_id, lambda r: ended(r, TaskState.FAILED)) == final
    assert records.read(TASK).state == TaskState.SUCCEEDED


def test_the_record_of_another_run_is_never_changed(records: TaskRecords):
    records.claim(a_record(TASK))

    with pytest.raises(ValueError, match=f"Task run changed: {TASK}"):
        records.update(TASK, "another", ended)
    with pytest.raises(TaskRunChangedError):
        records.read_run(TASK, "another")


@pytest.mark.parametrize("exit_code", [-1, 256, 1000])
def test_a_record_that_could_not_be_read_is_never_written(records: TaskRecords, exit_code: int):
    record = a_record(TASK)
    records.claim(record)

    with pytest.raises(ValueError):
        records.update(
            TASK, record.run_id, lambda r: r.ended(TaskState.FAILED, r.created_at, exit_code=exit_code)
        )

    assert records.read(TASK) == record


def test_errors_are_bounded_and_printable(records: TaskRecords):
    record = a_record(TASK)
    records.claim(record)

    records.update(
        TASK,
        record.run_id,
        lambda r: r.ended(TaskState.FAILED, r.created_at, exit_code=1, error="\udcff" + "x" * 100_000),
    )

    assert records.read(TASK).error.startswith("?xxx")
    assert len(records.read(TASK).error) < 9000


def test_records_are_listed_oldest_first_by_type_and_state(records: TaskRecords):
    ids = ["etl#a#1", "base#b#2", "etl#a#3"]
    for second, task_id in enumerate(ids):
        records.claim(a_record(task_id, created_at=datetime(2025, 1, 1, second=second, tzinfo=UTC)))
    records.update("etl#a#3", records.read("etl#a#3").run_id, ended)
    (records.layout.workspace_path / "etl" / "something else").mkdir()

    assert [r.task_id for r in records.find_all()] == ids
    assert [r.task_id for r in records.find_all(TaskType.ETL)] == ["etl#a#1", "etl#a#3"]
    assert [r.task_id for r in records.find_all(state=TaskState.SUCCEEDED)] == ["etl#a#3"]
    assert records.find_all(TaskType.TRAIN) == []


def test_a_damaged_record_is_named_and_hides_no_other(records: TaskRecords, caplog: pytest.LogCaptureFixture):
    for task_id in (TASK, "base#demo#two"):
        records.claim(a_record(task_id))
    path = records.layout.metadata_path(TASK)
    path.write_text("{")

    with pytest.raises(TaskRecordError, match=r"cannot be read.*metadata\.json"):
        records.read(TASK)
    assert [r.task_id for r in records.find_all()] == ["base#demo#two"]
    assert str(path) in caplog.text


def test_deleting_removes_everything(records: TaskRecords):
    record = a_record(TASK)
    records.claim(record)
    with pytest.raises(ActiveTaskError, match=f"Active Task cannot be deleted: {TASK}; cancel it first"):
        records.delete(TASK)
    records.update(TASK, record.run_id, ended)

    records.delete(TASK)

    assert not records.layout.task_dir(TASK).exists()
    assert list(records.layout.trash_dir().iterdir()) == []
    records.claim(a_record(TASK))


def test_what_an_interrupted_deletion_left_is_removed(records: TaskRecords):
    (records.layout.trash_dir() / "abc" / "deep").mkdir(parents=True)

    records.empty_trash()

    assert not records.layout.trash_dir().exists()


def test_waiting_for_a_lock_is_bounded(tmp_path: Path):
    records = TaskRecords(tmp_path, lock_timeout_seconds=0.05)
    path = records.layout.lock_path(TASK)
    path.parent.mkdir()
    with FileLock(path):
        with pytest.raises(TaskLockError, match=f"locked for more than 0.05 s: {TASK}"):
            records.claim(a_record(TASK))

    records.claim(a_record(TASK))


def test_of_many_claims_at_once_one_wins(records: TaskRecords):
    won: list[str] = []

    def claim() -> None:
        record = a_record(TASK)
        try:
            records.claim(record)
        except ActiveTaskError:
            return
        won.append(record.run_id)

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert won == [records.read(TASK).run_id]


def test_changes_of_many_threads_are_all_made(records: TaskRecords):
    record = a_record(TASK)
    records.claim(record)

    def add() -> None:
        for _ in range(10):
            records.update(TASK, record.run_id, lambda r: r.with_changes(error=r.error + "x"))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert records.read(TASK).error == "x" * 40


@pytest.mark.parametrize("worker_gone", [False, True])
def test_a_run_whose_processes_are_gone_is_settled_as_failed(records: TaskRecords, worker_gone: bool):
    gone = an_ended_process()
    worker = {"pid": gone.pid, "process_started": gone.started, "state": "running"} if worker_gone else {}
    records.claim(a_record(TASK, supervisor=gone, **worker))

    settled = settle_abandoned(records, TASK)

    assert settled is not None
    assert (settled.state, settled.exit_code) == (TaskState.FAILED, 1)
    assert settled.error == "The process that ran this Task ended without a result"
    assert records.read(TASK) == settled


def test_a_process_id_that_was_given_out_again_does_not_keep_a_run_alive(records: TaskRecords):
    other = this_process().model_copy(update={"started": "some earlier process"})
    records.claim(a_record(TASK, supervisor=other, pid=other.pid, process_started=other.started))

    settled = settle_abandoned(records, TASK)

    assert settled is not None and settled.state == TaskState.FAILED


def test_a_run_that_was_to_be_cancelled_is_settled_as_cancelled(records: TaskRecords):
    records.claim(a_record(TASK, supervisor=an_ended_process(), cancel_requested=True))

    settled = settle_abandoned(records, TASK)

    assert settled is not None
    assert (settled.state, settled.exit_code, settled.error) == (TaskState.CANCELLED, 130, "Task cancelled")


def test_a_run_that_goes_on_is_not_settled(records: TaskRecords):
    record = a_record(TASK)
    records.claim(record)

    assert settle_abandoned(records, TASK) == record


WRITER = """
import sys
from pathlib import Path
from axonx.task.records import TaskRecords
records = TaskRecords(Path(sys.argv[1]))
run_id = records.read(sys.argv[2]).run_id
print("up", flush=True)
while True:
    for length in (10, 300_000):
        records.update(sys.argv[2], run_id, lambda record: record.with_changes(error="x" * length))
"""


def length(records: TaskRecords) -> int:
    return len(records.read(TASK).error)


def test_killing_a_writer_at_any_moment_leaves_a_readable_record(records: TaskRecords):
    records.claim(a_record(TASK))
    moments = random.Random(7)
    lengths = {0}
    for _ in range(20):
        before = length(records)
        command = [sys.executable, "-c", WRITER, str(records.layout.workspace_path), TASK]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stdout.readline() == b"up\n"
            while process.poll() is None and length(records) == before:
                pass
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(moments.uniform(0, 0.03))
            os.kill(process.pid, signal.SIGKILL)
        lengths.add(length(records))

    assert lengths <= {0, 10, 300_000} and len(lengths) > 1
    record = records.read(TASK)
    assert records.update(TASK, record.run_id, ended).state == TaskState.SUCCEEDED
