from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support import research
from support.task_managers import application, ended, is_gone, manager_of, sleeping, until
from support.task_records import a_record, an_ended_process

from axonx.components.registry import provider
from axonx.task import BaseInputParams, BaseTaskManager, TaskState, TaskType
from axonx.task.errors import (
    ForeignRunError,
    TaskImportError,
    TaskInputError,
    TaskNotFoundError,
    TasksClosedError,
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


async def test_nothing_is_deleted_when_one_of_the_tasks_is_unknown(manager: BaseTaskManager):
    record = await ended(manager, await manager.submit("repeat_word", {}))

    with pytest.raises(TaskNotFoundError):
        await manager.delete([record.task_id, "etl#x#y"])

    assert await manager.list_ids() == [record.task_id]


async def test_deleting_waits_for_a_worker_that_still_exits(manager: BaseTaskManager, tmp_path: Path):
    handle = await manager.submit("act", {"action": "leave_a_thread", "seconds": 0.6})
    record = await ended(manager, handle)
    assert record.pid is not None and not is_gone(record.pid)

    assert await manager.delete([handle.task_id]) == [handle.task_id]

    assert is_gone(record.pid)


async def test_a_name_can_be_used_again_when_its_last_worker_is_gone(manager: BaseTaskManager):
    first = await manager.submit("act", {"action": "leave_a_thread", "seconds": 0.4, "task_name": "one"})
    record = await ended(manager, first)

    second = await manager.submit("act", {"action": "print_lines", "task_name": "one"})

    assert record.pid is not None and is_gone(record.pid)
    assert (await ended(manager, second)).state == TaskState.SUCCEEDED


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


async def test_a_run_of_another_living_service_is_left_alone_but_can_be_cancelled(tmp_path: Path):
    async with application(tmp_path) as first, application(tmp_path) as second:
        handle, _ = await sleeping(manager_of(first))

        assert (await manager_of(second).get_status(handle.task_id)).state == TaskState.RUNNING
        with pytest.raises(FileExistsError):
            await manager_of(second).submit("act", {"action": "sleep", "task_name": "one"})
        assert await manager_of(second).cancel(handle.task_id) is True

        assert (await ended(manager_of(first), handle)).state == TaskState.CANCELLED


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
