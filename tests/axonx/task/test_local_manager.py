from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from blockbuster import blockbuster_ctx
from pydantic import ValidationError
from support import research
from support.task_records import a_record, an_ended_process

from axonx import Application
from axonx.components.job import ArtifactEvent, LogEvent, ProgressEvent
from axonx.components.registry import provider
from axonx.task import BaseInputParams, BaseTaskManager, TaskHandle, TaskMetadata, TaskState, TaskType
from axonx.task.defaults import TASK_COMPONENTS
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

TASKS = (research.RepeatWordTask, research.CountLettersTask, research.ActTask)


def application(workspace: Path, *more: type, grace: float = 5, **config: Any) -> Application:
    components = TASK_COMPONENTS | {
        "task_manager": {"default": {"backend": "local", "terminate_grace_seconds": grace}}
    }
    return Application(
        providers=(*TASKS, *more), workspace_dir=str(workspace), components=components, **config
    )


def manager_of(app: Application) -> BaseTaskManager:
    manager = app.context.component("task_manager")
    assert isinstance(manager, BaseTaskManager)
    return manager


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[BaseTaskManager]:
    async with application(tmp_path) as app:
        yield manager_of(app)


async def ended(manager: BaseTaskManager, handle: TaskHandle) -> TaskMetadata:
    return await manager.wait(handle.task_id, handle.run_id, 0.02, timeout_seconds=60)


async def act(manager: BaseTaskManager, action: str, **more: Any) -> TaskMetadata:
    return await ended(manager, await manager.submit("act", {"action": action, **more}))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


async def sleeping(
    manager: BaseTaskManager, tmp_path: Path, action: str = "sleep", name: str = "one"
) -> TaskHandle:
    """Submit a Task that sleeps, and return when it does."""
    handle = await manager.submit("act", {"action": action, "task_name": name})
    started = persistent(tmp_path, handle) / "started"
    await until(lambda: started.exists() and started.read_text() != "")
    return handle


def persistent(tmp_path: Path, handle: TaskHandle) -> Path:
    return tmp_path / "base" / handle.task_id / "persistent"


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_a_submitted_task_runs_in_a_process_of_its_own(manager: BaseTaskManager, tmp_path: Path):
    handle = await manager.submit("repeat_word", {"word": "ab", "times": 2, "task_name": "one"})

    assert handle == TaskHandle("etl#repeat_word#one", handle.run_id, "repeat_word")
    record = await ended(manager, handle)
    assert (record.state, record.exit_code, record.error) == (TaskState.SUCCEEDED, 0, "")
    assert record.output_params["text"] == "abab"
    assert record.source.kind == "submit"
    assert record.pid not in (None, os.getpid())
    assert record.supervisor == this_process()
    assert (await manager.get_status(handle.task_id)) == record
    assert await manager.list_ids() == [handle.task_id]


async def test_a_failing_task_tells_its_error_and_its_exit_code(manager: BaseTaskManager):
    record = await ended(manager, await manager.submit("demo", {"x": 1, "y": 2, "fail": True}))

    assert (record.state, record.exit_code) == (TaskState.FAILED, 1)
    assert record.error == "RuntimeError: The demo was asked to fail"


async def test_wrong_submissions_leave_nothing_behind(manager: BaseTaskManager, tmp_path: Path):
    with pytest.raises(UnknownTaskError, match=r"Unknown Task: 'nope' \(known: act, count_letters, demo,"):
        await manager.submit("nope", {})
    with pytest.raises(ValidationError, match="valid integer"):
        await manager.submit("demo", {"x": "a", "y": 1})
    with pytest.raises(ValueError, match="A Task cannot be its own source"):
        await manager.submit("act", {"action": "sleep", "task_name": "a", "source_tasks": "base#act#a"})

    assert list(tmp_path.iterdir()) == []


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


async def test_what_a_worker_writes_is_in_its_log_and_nowhere_else(
    manager: BaseTaskManager, capfd: pytest.CaptureFixture[str]
):
    record = await act(manager, "print_lines")

    log = (await manager.read_log(record.task_id)).content
    assert "first line\nzweite Zeile: größer\n" in log
    assert "an error line" in log and "INFO axonx.task.act: a logged line" in log
    assert capfd.readouterr() == ("", "")
    window = await manager.read_log(record.task_id, 0, 5, run_id=record.run_id)
    assert isinstance(window, LogEvent) and window.has_more_after
    with pytest.raises(TaskRunChangedError):
        await manager.read_log(record.task_id, run_id="another")


async def test_tracebacks_hold_no_values_of_variables(manager: BaseTaskManager):
    record = await act(manager, "raise_with_a_secret")

    log = (await manager.read_log(record.task_id)).content
    assert "Traceback" in log and "RuntimeError: no access" in log
    assert log.count("hunter2") == 0


async def test_the_environment_of_a_worker_is_minimal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MY_SECRET", "x")
    async with application(tmp_path, environment={"MY_SETTING": "1", "PYTHONPATH": "/nowhere"}) as app:
        record = await act(manager_of(app), "show_environment")
        log = await manager_of(app).read_log(record.task_id)

    names = {line for line in log.content.splitlines() if line.isidentifier()}
    assert names - {"HOME", "LD_LIBRARY_PATH", "LC_CTYPE"} == {"MY_SETTING", "PATH", "PYTHONPATH"}


async def test_cancelling_lets_a_task_clean_up(manager: BaseTaskManager, tmp_path: Path):
    handle = await sleeping(manager, tmp_path)

    assert await manager.cancel(handle.task_id) is True

    record = await ended(manager, handle)
    assert (record.state, record.exit_code, record.error) == (TaskState.CANCELLED, 130, "Task cancelled")
    assert record.steps[0].state == "failed"
    assert (persistent(tmp_path, handle) / "closed").exists()
    assert (persistent(tmp_path, handle) / "failure").read_text() == "TaskCancelled"
    assert await manager.cancel(handle.task_id) is False


@pytest.mark.parametrize("action", ["ignore_the_end", "swallow_the_end"])
async def test_a_task_that_does_not_end_is_killed(tmp_path: Path, action: str):
    async with application(tmp_path, grace=0.1) as app:
        manager = manager_of(app)
        handle = await sleeping(manager, tmp_path, action)
        pid = int((persistent(tmp_path, handle) / "started").read_text())

        assert await manager.cancel(run_id=handle.run_id) is True

        record = await ended(manager, handle)
        assert (record.state, record.exit_code) == (TaskState.CANCELLED, 130)
        assert is_gone(pid)


async def test_a_task_is_cancelled_with_everything_that_it_started(manager: BaseTaskManager, tmp_path: Path):
    handle = await sleeping(manager, tmp_path, "start_a_child_and_sleep")
    child = int((persistent(tmp_path, handle) / "child").read_text())

    await manager.cancel(handle.task_id, handle.run_id)

    await until(lambda: is_gone(child))


async def test_nothing_that_a_task_started_outlives_it(manager: BaseTaskManager, tmp_path: Path):
    handle = await manager.submit("act", {"action": "start_a_child"})
    record = await ended(manager, handle)

    assert record.state == TaskState.SUCCEEDED
    child = int((persistent(tmp_path, handle) / "child").read_text())
    await until(lambda: is_gone(child))


async def test_a_run_can_be_cancelled_right_after_its_submission(manager: BaseTaskManager):
    handle = await manager.submit("act", {"action": "sleep"})

    assert await manager.cancel(run_id=handle.run_id) is True
    assert (await ended(manager, handle)).state == TaskState.CANCELLED


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
    handle = await sleeping(manager, tmp_path)

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


async def test_a_worker_that_leaves_without_a_result_has_failed(manager: BaseTaskManager):
    left, killed = await asyncio.gather(act(manager, "leave_at_once"), act(manager, "kill_itself"))

    assert (left.state, left.exit_code) == (TaskState.FAILED, 1)
    assert left.error == "Task worker ended without a result (exit code 0)"
    assert (killed.state, killed.exit_code) == (TaskState.FAILED, 137)
    assert killed.error == "Task worker was ended by signal 9 before it had a result"


async def test_a_worker_that_cannot_be_started_fails_its_run(
    manager: BaseTaskManager, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.executable", "/nowhere/python")

    with pytest.raises(FileNotFoundError):
        await manager.submit("repeat_word", {"task_name": "one"})

    record = await manager.get_status("etl#repeat_word#one")
    assert record.state == TaskState.FAILED
    assert record.error.startswith("Task worker could not be started: ")


async def test_waiting_can_be_bounded(manager: BaseTaskManager, tmp_path: Path):
    handle = await sleeping(manager, tmp_path)

    with pytest.raises(TimeoutError):
        await manager.wait(handle.task_id, handle.run_id, timeout_seconds=0.05)
    for interval in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="poll_interval must be more than 0"):
            await manager.wait(handle.task_id, handle.run_id, interval)
    await manager.cancel(handle.task_id)


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


async def test_closing_the_application_ends_its_workers(tmp_path: Path):
    async with application(tmp_path) as app:
        handles = [await sleeping(manager_of(app), tmp_path, name=name) for name in ("one", "two")]

    for handle in handles:
        record = TaskRecords(tmp_path).read(handle.task_id)
        assert (record.state, record.exit_code, record.error) == (TaskState.CANCELLED, 130, "Task cancelled")
        assert record.pid is not None and is_gone(record.pid)
        assert (persistent(tmp_path, handle) / "closed").exists()


async def test_closing_ends_a_worker_that_has_only_just_been_submitted(tmp_path: Path):
    async with application(tmp_path) as app:
        submission = asyncio.create_task(manager_of(app).submit("act", {"action": "sleep", "task_name": "a"}))
        await until((tmp_path / "base" / "base#act#a" / "metadata.json").exists)

    await submission
    assert TaskRecords(tmp_path).read("base#act#a").state == TaskState.CANCELLED


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


async def test_following_a_run_gives_its_progress_its_log_and_its_files(manager: BaseTaskManager):
    handle = await manager.submit("repeat_word", {"word": "x"})

    events = [event async for event in manager.stream(handle.task_id, 0.05)]

    steps = [event for event in events if isinstance(event, ProgressEvent)]
    assert (steps[0].name, steps[0].state) == ("repeat", "running")
    assert (steps[-1].name, steps[-1].state) == ("publish", "done")
    logs = [event for event in events if isinstance(event, LogEvent)]
    assert "Step publish" in "".join(event.content for event in logs)
    assert [event.start_offset for event in logs] == [0, *(event.next_offset for event in logs)][:-1]
    (artifact,) = [event for event in events if isinstance(event, ArtifactEvent)]
    assert events[-1] is artifact
    assert artifact.path == f"etl/{handle.task_id}/out/text.txt"
    assert (artifact.size, artifact.media_type) == (1, "text/plain")
    assert artifact.extra == {"name": "text", "task_id": handle.task_id}


async def test_following_is_live_and_ends_with_the_run(manager: BaseTaskManager, tmp_path: Path):
    handle = await sleeping(manager, tmp_path)
    seen = []
    async with asyncio.timeout(30):
        async for event in manager.stream(handle.task_id, 0.02):
            seen.append(event)
            if len(seen) == 1:
                status = await manager.get_status(handle.task_id)
                assert [(step.name, step.state) for step in status.steps] == [("sleep", "running")]
                await manager.cancel(handle.task_id)

    assert isinstance(seen[0], ProgressEvent)
    assert [event.state for event in seen if isinstance(event, ProgressEvent)][-1] == "failed"


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
        handle = await sleeping(manager_of(first), tmp_path)

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


async def test_the_event_loop_is_never_blocked(manager: BaseTaskManager, tmp_path: Path):
    with blockbuster_ctx():
        handle = await manager.submit("demo", {"x": 1, "y": 2})
        assert [event async for event in manager.stream(handle.task_id, 0.02)]
        assert (await manager.get_status(handle.task_id)).state == TaskState.SUCCEEDED
        second = await manager.submit("act", {"action": "sleep"})
        assert (await manager.get_status(second.task_id)).state in (TaskState.QUEUED, TaskState.RUNNING)
        assert await manager.cancel(second.task_id)
        assert await manager.read_log(second.task_id)
        assert len(await manager.delete(await manager.list_ids())) == 2


@pytest.mark.parametrize("grace", [-1, float("nan"), "long"])
def test_a_wrong_grace_is_refused(tmp_path: Path, grace: Any):
    with pytest.raises((ValueError, TypeError)):
        application(tmp_path, grace=grace)
