"""What holds for every Task manager, wherever its workers are: processes of its own, or of a Dask cluster."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from support.task_managers import act, application, ended, is_gone, manager_of, persistent, sleeping, until
from support.task_records import a_record, an_ended_process

from axonx.components.job import ArtifactEvent, LogEvent, ProgressEvent
from axonx.task import BaseTaskManager, TaskHandle, TaskState
from axonx.task.errors import TaskRunChangedError
from axonx.task.process import this_process
from axonx.task.records import TaskRecords


@pytest.fixture(params=["local", "dask"])
def runner(request: pytest.FixtureRequest) -> dict[str, Any] | None:
    if request.param == "local":
        return None
    return {"backend": "dask", "scheduler_address": request.getfixturevalue("dask_cluster").address}


@pytest.fixture
def build(runner: dict[str, Any] | None, nothing_leaks: None) -> partial[Any]:
    """Makes an application; what was there before it is no leak."""
    return partial(application, runner=runner)


@pytest.fixture
async def manager(build: partial[Any], tmp_path: Path) -> AsyncIterator[BaseTaskManager]:
    async with build(tmp_path) as app:
        yield manager_of(app)


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


async def test_the_environment_of_a_worker_is_minimal(
    build: partial[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MY_SECRET", "x")
    async with build(tmp_path, environment={"MY_SETTING": "1", "PYTHONPATH": "/nowhere"}) as app:
        record = await act(manager_of(app), "show_environment")
        log = await manager_of(app).read_log(record.task_id)

    names = {line for line in log.content.splitlines() if line.isidentifier()}
    assert names - {"HOME", "LD_LIBRARY_PATH", "LC_CTYPE"} == {"MY_SETTING", "PATH", "PYTHONPATH"}


async def test_cancelling_lets_a_task_clean_up(manager: BaseTaskManager, tmp_path: Path):
    handle, _ = await sleeping(manager)

    assert await manager.cancel(handle.task_id) is True

    record = await ended(manager, handle)
    assert (record.state, record.exit_code, record.error) == (TaskState.CANCELLED, 130, "Task cancelled")
    assert record.steps[0].state == "failed"
    assert (persistent(tmp_path, handle) / "closed").exists()
    assert (persistent(tmp_path, handle) / "failure").read_text() == "TaskCancelled"
    assert await manager.cancel(handle.task_id) is False


@pytest.mark.parametrize("action", ["ignore_the_end", "swallow_the_end"])
async def test_a_task_that_does_not_end_is_killed(build: partial[Any], tmp_path: Path, action: str):
    async with build(tmp_path, grace=0.1) as app:
        manager = manager_of(app)
        handle, pid = await sleeping(manager, action)

        assert await manager.cancel(run_id=handle.run_id) is True

        record = await ended(manager, handle)
        assert (record.state, record.exit_code) == (TaskState.CANCELLED, 130)
        assert is_gone(pid)


async def test_a_task_is_cancelled_with_everything_that_it_started(manager: BaseTaskManager, tmp_path: Path):
    handle, _ = await sleeping(manager, "start_a_child_and_sleep")

    await manager.cancel(handle.task_id, handle.run_id)

    child = int((persistent(tmp_path, handle) / "child").read_text())
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


async def test_a_worker_that_leaves_without_a_result_has_failed(manager: BaseTaskManager):
    left, killed = await asyncio.gather(act(manager, "leave_at_once"), act(manager, "kill_itself"))

    assert (left.state, left.exit_code) == (TaskState.FAILED, 1)
    assert left.error == "Task worker ended without a result (exit code 0)"
    assert (killed.state, killed.exit_code) == (TaskState.FAILED, 137)
    assert killed.error == "Task worker was ended by signal 9 before it had a result"


async def test_waiting_can_be_bounded(manager: BaseTaskManager, tmp_path: Path):
    handle, _ = await sleeping(manager)

    with pytest.raises(TimeoutError):
        await manager.wait(handle.task_id, handle.run_id, timeout_seconds=0.05)
    for interval in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="poll_interval must be more than 0"):
            await manager.wait(handle.task_id, handle.run_id, interval)
    await manager.cancel(handle.task_id)


async def test_closing_the_application_ends_its_workers(build: partial[Any], tmp_path: Path):
    async with build(tmp_path) as app:
        running = [await sleeping(manager_of(app), name=name) for name in ("one", "two")]

    for handle, pid in running:
        record = TaskRecords(tmp_path).read(handle.task_id)
        assert (record.state, record.exit_code, record.error) == (TaskState.CANCELLED, 130, "Task cancelled")
        assert is_gone(pid)
        assert (persistent(tmp_path, handle) / "closed").exists()


async def test_closing_ends_a_worker_that_has_only_just_been_submitted(build: partial[Any], tmp_path: Path):
    async with build(tmp_path) as app:
        submission = asyncio.create_task(manager_of(app).submit("act", {"action": "sleep", "task_name": "a"}))
        await until((tmp_path / "base" / "base#act#a" / "metadata.json").exists)

    await submission
    assert TaskRecords(tmp_path).read("base#act#a").state == TaskState.CANCELLED


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
    handle, _ = await sleeping(manager)
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


async def test_a_run_of_another_living_service_is_left_alone_but_can_be_cancelled(
    build: partial[Any], tmp_path: Path
):
    async with build(tmp_path) as first, build(tmp_path) as second:
        handle, _ = await sleeping(manager_of(first))

        assert (await manager_of(second).get_status(handle.task_id)).state == TaskState.RUNNING
        with pytest.raises(FileExistsError):
            await manager_of(second).submit("act", {"action": "sleep", "task_name": "one"})
        assert await manager_of(second).cancel(handle.task_id) is True

        assert (await ended(manager_of(first), handle)).state == TaskState.CANCELLED


async def test_a_run_that_a_killed_service_had_in_a_cluster_is_settled_without_ending_processes_here(
    build: partial[Any], tmp_path: Path
):
    me = this_process()
    elsewhere = {"host": "tcp://10.0.0.5:9", "pid": me.pid, "process_started": me.started}
    record = a_record("base#act#one", supervisor=an_ended_process(), state="running", **elsewhere)
    TaskRecords(tmp_path).claim(record)

    async with build(tmp_path):
        settled = TaskRecords(tmp_path).read("base#act#one")

    assert (settled.state, settled.exit_code) == (TaskState.FAILED, 1)
    assert settled.error == "The process that ran this Task ended without a result"
