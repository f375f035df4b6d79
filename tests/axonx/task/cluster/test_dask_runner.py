"""What is special to a cluster: workers and schedulers that are lost, and files that travel."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.dask_cluster import RunningCluster, running_cluster
from support.task_managers import act, application, ended, is_gone, manager_of, persistent, sleeping, until

from axonx.task import BaseTaskManager, TaskState
from axonx.task.cluster import dask_runner
from axonx.task.cluster.errors import ClusterError
from axonx.task.records import TaskRecords
from axonx.task.run_log import LARGEST_WINDOW_BYTES

NOBODY = "tcp://127.0.0.1:9"


def at(cluster: RunningCluster) -> dict[str, Any]:
    return {"backend": "dask", "scheduler_address": cluster.address}


@pytest.fixture
async def manager(
    dask_cluster: RunningCluster, nothing_leaks: None, tmp_path: Path
) -> AsyncIterator[BaseTaskManager]:
    async with application(tmp_path, runner=at(dask_cluster)) as app:
        yield manager_of(app)


@pytest.fixture(scope="module")
def doomed_cluster() -> Iterator[RunningCluster]:
    """Two Dask workers, one for each Task, for tests that end parts of it."""
    with running_cluster(workers=2) as cluster:
        yield cluster


async def test_a_cluster_of_ones_own_runs_tasks_and_is_gone_with_the_application(
    nothing_leaks: None, tmp_path: Path
):
    runner = {"backend": "dask", "n_workers": 1, "processes": False}
    starts = tmp_path / "starts"
    async with application(tmp_path, runner=runner, environment={"STARTS": str(starts)}) as app:
        manager = manager_of(app)
        first, _ = await sleeping(manager)
        action = {"action": "count_the_start_and_sleep"}
        waiting = await manager.submit("act", action)
        left = await manager.submit("act", action)

        assert await manager.cancel(waiting.task_id) is True
        assert (await ended(manager, waiting)).error == "Task cancelled"
        assert (await manager.get_status(left.task_id)).state == TaskState.QUEUED

    for handle in (first, left):
        assert TaskRecords(tmp_path).read(handle.task_id).error == "Task cancelled"
    assert not starts.exists()


async def test_a_task_whose_dask_worker_is_lost_has_failed_and_is_not_begun_again(
    doomed_cluster: RunningCluster, tmp_path: Path
):
    starts = tmp_path / "starts"
    async with application(tmp_path, runner=at(doomed_cluster), environment={"STARTS": str(starts)}) as app:
        manager = manager_of(app)
        handle, pid = await sleeping(manager, "count_the_start_and_sleep")
        address = (await manager.get_status(handle.task_id)).host
        psutil.Process(pid).parent().kill()

        record = await ended(manager, handle)

        assert (record.state, record.exit_code) == (TaskState.FAILED, 1)
        assert record.error == f"Dask worker {address} was lost before the Task had a result"
        assert [(step.name, step.state) for step in record.steps] == [("count_the_start_and_sleep", "failed")]
        await until(lambda: is_gone(pid))
        assert (await act(manager, "print_lines")).state == TaskState.SUCCEEDED
        assert starts.read_text() == "x"


async def test_a_scheduler_that_is_lost_ends_its_runs_and_refuses_new_ones(
    doomed_cluster: RunningCluster, tmp_path: Path
):
    async with application(tmp_path, runner=at(doomed_cluster)) as app:
        manager, runner = manager_of(app), app.context.component("task_runner", "chosen")
        # The usual ten seconds are for a scheduler that is busy; this one will be gone.
        runner._place = dataclasses.replace(runner._place, connect_timeout_seconds=0.2)
        handle, _ = await sleeping(manager)
        doomed_cluster.kill()

        record = await ended(manager, handle)

        assert (record.state, record.exit_code) == (TaskState.FAILED, 1)
        assert record.error.startswith("The connection to the Dask cluster was lost: ")
        with pytest.raises(
            ClusterError, match=f"No Dask scheduler answers at {doomed_cluster.address} within"
        ):
            await manager.submit("repeat_word", {"task_name": "one"})
        refused = await manager.get_status("etl#repeat_word#one")
        assert refused.error.startswith("Task worker could not be started: No Dask scheduler answers")


async def test_an_application_without_its_cluster_does_not_start(nothing_leaks: None, tmp_path: Path):
    app = application(
        tmp_path, runner={"backend": "dask", "scheduler_address": NOBODY, "connect_timeout_seconds": 0.2}
    )
    with pytest.raises(ClusterError, match=rf"at {NOBODY} within 0.2 s .*; start it, or correct"):
        await app.start()


async def test_files_of_sources_and_earlier_runs_are_there_and_come_back(
    manager: BaseTaskManager, tmp_path: Path
):
    source = await ended(manager, await manager.submit("repeat_word", {"word": "ab", "times": 3}))
    counted = await manager.submit("count_letters", {"source_tasks": source.task_id})
    assert (await ended(manager, counted)).output_params["text"] == "6"
    text = tmp_path / "etl" / source.task_id / "out" / "text.txt"
    revision = source.output_params["artifacts"]["text"]["revision"]
    assert f"{text.stat().st_mtime_ns}:{text.stat().st_size}" == revision

    for count, first_is_there in (("1", True), ("2", False)):
        handle = await manager.submit("act", {"action": "keep_a_count", "task_name": "kept"})
        assert (await ended(manager, handle)).state == TaskState.SUCCEEDED
        assert (persistent(tmp_path, handle) / "count").read_text() == count
        assert (persistent(tmp_path, handle) / "deep" / "first").exists() is first_is_there


async def test_a_missing_source_is_told_by_the_task_itself(manager: BaseTaskManager):
    handle = await manager.submit("count_letters", {"source_tasks": "etl#repeat_word#none"})

    assert (await ended(manager, handle)).error == "TaskNotFoundError: Task not found: etl#repeat_word#none"


async def test_a_long_log_arrives_whole_and_in_order(manager: BaseTaskManager):
    record = await act(manager, "print_many_lines")

    offset, text = 0, ""
    while (window := await manager.read_log(record.task_id, offset, LARGEST_WINDOW_BYTES)).content:
        text, offset = text + window.content, window.next_offset
    lines = [line for line in text.splitlines() if line.startswith("line ")]
    assert lines == [f"line {number}" for number in range(200_000)]


async def test_a_worker_with_another_version_is_named(
    manager: BaseTaskManager, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(dask_runner, "__version__", "0.0.9")

    record = await act(manager, "print_lines")

    assert record.state == TaskState.FAILED
    assert "ClusterError: the service has AxonX 0.0.9, the Dask worker " in record.error
    assert record.error.endswith("install the same version on both")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheduler_address": NOBODY, "n_workers": 2}, "take it out, or scheduler_address"),
        ({"n_workers": 0}, "n_workers must be 1 or more, got 0"),
        ({"grace": -1}, "terminate_grace_seconds must be 0 or more, got -1"),
    ],
)
def test_options_that_cannot_work_are_refused(tmp_path: Path, options: dict[str, Any], message: str):
    grace = options.pop("grace", 5)
    with pytest.raises(ValueError, match=message):
        application(tmp_path, runner={"backend": "dask"} | options, grace=grace)


def test_without_dask_the_error_has_the_command_that_installs_it():
    code = (
        "import sys; sys.modules['distributed'] = None\n"
        "from axonx import Application\n"
        "try:\n    Application(components={'task_runner': {'one': {'backend': 'dask'}}})\n"
        "except ValueError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "task_runner:dask needs the package 'distributed', which is not installed: "
        "pip install 'deerflow[distributed]'\n"
    )


def test_an_application_with_local_workers_does_not_import_dask(tmp_path: Path):
    code = (
        "import sys; from axonx import Application; from axonx.task.defaults import TASK_COMPONENTS\n"
        "Application(workspace_dir=sys.argv[1], components=TASK_COMPONENTS)\n"
        "print({'dask', 'distributed'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


async def test_a_lost_connection_is_made_again_by_the_next_submission(
    dask_cluster: RunningCluster, tmp_path: Path
):
    async with application(tmp_path, runner=at(dask_cluster)) as app:
        runner = app.context.component("task_runner", "chosen")
        runner._link._lose("the network was down")

        assert (await act(manager_of(app), "print_lines")).state == TaskState.SUCCEEDED
