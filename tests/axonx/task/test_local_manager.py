from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support import research
from support.task_managers import application, ended, is_gone, manager_of, persistent, sleeping, until
from support.task_records import a_record, an_ended_process

from axonx.components.registry import provider
from axonx.task import BaseInputParams, BaseTaskManager, TaskHandle, TaskState, TaskType
from axonx.task.errors import (
    ActiveTaskError,
    ForeignRunError,
    TaskImportError,
    TaskInputError,
    TaskNotFoundError,
    TaskRunChangedError,
    TasksClosedError,
    UnknownTaskError,
)
from axonx.task.process import ProcessIdentity, this_process
from axonx.task.records import TaskRecords

pytestmark = pytest.mark.usefixtures("nothing_leaks")


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[BaseTaskManager]:
    async with application(tmp_path) as app:
        yield manager_of(app)


class SecretInput(BaseInputParams):
    number: float


@provider("not_a_number")
class NotANumberTask(research.RepeatWordTask):
    input_cls = SecretInput


async def test_input_that_json_would_change_is_refused(tmp_path: Path):
    async with application(tmp_path, NotANumberTask) as app:
        with pytest.raises(TaskInputError, match="Input of Task 'not_a_number' cannot be handed to a worker"):
            await manager_of(app).submit("not_a_number", {"number": float("nan")})


async def test_a_class_that_no_worker_can_import_is_refused(tmp_path: Path):
    @provider("inner")
    class InnerTask(research.RepeatWordTask):
        pass

    async with application(tmp_path, InnerTask) as app:
        with pytest.raises(TaskImportError, match=r"InnerTask cannot run in a worker process: .*exec"):
            await manager_of(app).submit("inner", {})


async def test_wrong_submissions_leave_nothing_behind(manager: BaseTaskManager, tmp_path: Path):
    with pytest.raises(UnknownTaskError, match=r"Unknown Task: 'nope' \(known: act, count_letters, demo,"):
        await manager.submit("nope", {})
    with pytest.raises(ValidationError, match="valid integer"):
        await manager.submit("demo", {"x": "a", "y": 1})
    with pytest.raises(ValueError, match="A Task cannot be its own source"):
        await manager.submit("act", {"action": "sleep", "task_name": "a", "source_tasks": "base#act#a"})

    assert list(tmp_path.iterdir()) == []


async def test_unknown_and_replaced_runs_are_told_apart(manager: BaseTaskManager):
    first = await manager.submit("repeat_word", {"task_name": "one"})
    await ended(manager, first)
    second = await manager.submit("repeat_word", {"task_name": "one"})

    with pytest.raises(ValueError, match="Task run changed: etl#repeat_word#one"):
        await manager.wait(first.task_id, first.run_id)
    with pytest.raises(TaskRunChangedError):
        await manager.cancel(first.task_id, first.run_id)
    with pytest.raises(TaskNotFoundError):
        await manager.cancel(run_id=first.run_id)
    with pytest.raises(FileNotFoundError, match="Task not found: etl#x#y"):
        await manager.wait("etl#x#y", "z")
    with pytest.raises(ValueError, match="cancel needs task_id or run_id"):
        await manager.cancel()
    assert (await ended(manager, second)).state == TaskState.SUCCEEDED


async def test_an_active_name_is_taken_until_its_run_has_ended(manager: BaseTaskManager, tmp_path: Path):
    handle, _ = await sleeping(manager)

    with pytest.raises(FileExistsError, match="Active Task already exists: base#act#one"):
        await manager.submit("act", {"action": "sleep", "task_name": "one"})
    with pytest.raises(ActiveTaskError, match="Active Task cannot be deleted: base#act#one"):
        await manager.delete([handle.task_id])

    await manager.cancel(handle.task_id)
    again = await manager.submit("act", {"action": "print_lines", "task_name": "one"})
    assert (await ended(manager, again)).state == TaskState.SUCCEEDED


async def test_many_submissions_of_one_name_start_one_run(manager: BaseTaskManager):
    submissions = [manager.submit("act", {"action": "sleep", "task_name": "one"}) for _ in range(5)]

    results = await asyncio.gather(*submissions, return_exceptions=True)

    handles = [result for result in results if isinstance(result, TaskHandle)]
    assert len(handles) == 1
    assert all(isinstance(result, FileExistsError) for result in results if result not in handles)
    assert await manager.cancel(run_id=handles[0].run_id)


async def test_deleting_right_after_the_end_deletes(manager: BaseTaskManager, tmp_path: Path):
    handles = [await manager.submit("repeat_word", {}) for _ in range(2)]
    ids = [(await ended(manager, handle)).task_id for handle in handles]

    assert await manager.delete(ids) == ids
    assert await manager.list_ids() == []
    with pytest.raises(FileNotFoundError, match="Task not found"):
        await manager.delete(ids)


async def test_nothing_is_deleted_when_one_of_the_tasks_is_unknown(manager: BaseTaskManager):
    record = await ended(manager, await manager.submit("repeat_word", {}))

    with pytest.raises(TaskNotFoundError):
        await manager.delete([record.task_id, "etl#x#y"])

    assert await manager.list_ids() == [record.task_id]


async def test_deleting_waits_for_a_worker_that_still_exits(manager: BaseTaskManager, tmp_path: Path):
    handle, pid = await exiting(manager)

    deletion = asyncio.create_task(manager.delete([handle.task_id]))

    await asyncio.wait([deletion], timeout=0.2)
    assert not deletion.done() and not is_gone(pid)
    (persistent(tmp_path, handle) / "go").touch()
    assert await deletion == [handle.task_id]
    assert is_gone(pid)


async def test_a_name_can_be_used_again_when_its_last_worker_is_gone(
    manager: BaseTaskManager, tmp_path: Path
):
    first, pid = await exiting(manager)

    submission = asyncio.create_task(manager.submit("act", {"action": "print_lines", "task_name": "one"}))

    await asyncio.wait([submission], timeout=0.2)
    assert not submission.done() and not is_gone(pid)
    (persistent(tmp_path, first) / "go").touch()
    second = await submission
    assert is_gone(pid)
    assert (await ended(manager, second)).state == TaskState.SUCCEEDED


async def exiting(manager: BaseTaskManager) -> tuple[TaskHandle, int]:
    """A Task that has ended, and the id of its process, which stays until its file `go` is there."""
    handle = await manager.submit("act", {"action": "leave_a_thread_that_waits", "task_name": "one"})
    pid = (await ended(manager, handle)).pid
    assert pid is not None
    return handle, pid


async def test_a_worker_that_cannot_be_started_fails_its_run(
    manager: BaseTaskManager, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.executable", "/nowhere/python")

    with pytest.raises(FileNotFoundError):
        await manager.submit("repeat_word", {"task_name": "one"})

    record = await manager.get_status("etl#repeat_word#one")
    assert record.state == TaskState.FAILED
    assert record.error.startswith("Task worker could not be started: ")


async def test_who_stops_waiting_for_a_submission_does_not_stop_it(manager: BaseTaskManager, tmp_path: Path):
    submission = asyncio.create_task(manager.submit("repeat_word", {"task_name": "one"}))
    path = tmp_path / "etl" / "etl#repeat_word#one" / "metadata.json"
    await until(path.exists)
    submission.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await submission

    record = await manager.get_status("etl#repeat_word#one")
    record = await manager.wait(record.task_id, record.run_id, timeout_seconds=60)
    assert record.state == TaskState.SUCCEEDED


async def test_a_closed_application_takes_no_tasks_until_it_is_started_again(tmp_path: Path):
    app = application(tmp_path)
    for _ in range(2):
        with pytest.raises(TasksClosedError):
            await manager_of(app).submit("repeat_word", {})
        async with app:
            record = await ended(manager_of(app), await manager_of(app).submit("repeat_word", {}))
            assert record.state == TaskState.SUCCEEDED


async def test_statuses_are_listed_by_type_and_state(manager: BaseTaskManager):
    good, bad = await asyncio.gather(
        manager.submit("repeat_word", {}), manager.submit("demo", {"x": 1, "y": 1, "fail": True})
    )
    await ended(manager, good)
    await ended(manager, bad)

    async def ids(**chosen: Any) -> list[str]:
        return [record.task_id for record in await manager.list_statuses(**chosen)]

    assert sorted(await ids()) == sorted([good.task_id, bad.task_id])
    assert await ids(task_type=TaskType.ETL) == [good.task_id]
    assert await ids(state=TaskState.FAILED) == [bad.task_id]
    assert await ids(task_type=TaskType.ETL, state=TaskState.FAILED) == []


async def test_a_run_of_a_service_that_was_killed_is_settled_at_the_next_start(tmp_path: Path):
    gone = an_ended_process()
    TaskRecords(tmp_path).claim(
        a_record("base#act#one", supervisor=gone, pid=gone.pid, process_started=gone.started, state="running")
    )

    async with application(tmp_path):
        record = TaskRecords(tmp_path).read("base#act#one")

    assert (record.state, record.exit_code) == (TaskState.FAILED, 1)
    assert record.error == "The process that ran this Task ended without a result"


async def test_a_worker_of_a_service_that_was_killed_is_ended_at_the_next_start(tmp_path: Path):
    orphan = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    identity = ProcessIdentity.of(orphan.pid)
    TaskRecords(tmp_path).claim(
        a_record(
            "base#act#one",
            supervisor=an_ended_process(),
            pid=identity.pid,
            process_started=identity.started,
            state="running",
        )
    )

    async with application(tmp_path):
        assert TaskRecords(tmp_path).read("base#act#one").state == TaskState.FAILED

    assert await orphan.wait() == -signal.SIGTERM


async def test_a_process_id_that_was_given_out_again_is_left_alone(tmp_path: Path):
    other = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    TaskRecords(tmp_path).claim(
        a_record(
            "base#act#one",
            supervisor=an_ended_process(),
            pid=other.pid,
            process_started="an earlier process",
            state="running",
        )
    )

    async with application(tmp_path):
        assert TaskRecords(tmp_path).read("base#act#one").state == TaskState.FAILED

    assert other.returncode is None
    other.kill()
    await other.wait()


async def test_a_run_of_exec_is_not_ended_from_outside(manager: BaseTaskManager, tmp_path: Path):
    me = this_process()
    TaskRecords(tmp_path).claim(
        a_record(
            "base#act#one", source={"kind": "exec"}, pid=me.pid, process_started=me.started, state="running"
        )
    )

    with pytest.raises(ForeignRunError, match=rf"runs inside process {me.pid} \(exec\)"):
        await manager.cancel("base#act#one")


async def test_a_run_whose_worker_died_unseen_is_settled_when_it_is_asked_for(
    manager: BaseTaskManager, tmp_path: Path
):
    gone = an_ended_process()
    record = a_record("base#act#one", pid=gone.pid, process_started=gone.started, state="running")
    TaskRecords(tmp_path).claim(record)

    assert (await manager.wait(record.task_id, record.run_id, timeout_seconds=10)).state == TaskState.FAILED


@pytest.mark.parametrize("grace", [-1, float("nan"), "long"])
def test_a_wrong_grace_is_refused(tmp_path: Path, grace: Any):
    with pytest.raises((ValueError, TypeError)):
        application(tmp_path, grace=grace)
