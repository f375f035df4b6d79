from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support import research
from support.task_records import a_record

from axonx import Application
from axonx.task import BaseTaskManager, TaskState
from axonx.task.defaults import TASK_COMPONENTS
from axonx.task.event_log import read_events
from axonx.task.records import TaskRecords
from axonx.task.runner import worker_environment

pytestmark = pytest.mark.usefixtures("nothing_leaks")

ACT = "support.research:ActTask"


def application(workspace: Path) -> Application:
    return Application(
        providers=(research.ActTask,), workspace_dir=str(workspace), components=TASK_COMPONENTS
    )


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def until_exists(path: Path) -> None:
    async with asyncio.timeout(30):
        while not path.exists() or not path.read_text():
            await asyncio.sleep(0.005)


async def killed_at_random(manager: BaseTaskManager, workspace: Path, seconds: float) -> None:
    handle = await manager.submit("act", {"action": "report_all_the_time"})
    directory = workspace / "base" / handle.task_id
    await until_exists(directory / "persistent" / "started")
    await asyncio.sleep(seconds)
    os.kill(int((directory / "persistent" / "started").read_text()), signal.SIGKILL)

    record = await manager.wait(handle.task_id, handle.run_id, 0.05, timeout_seconds=30)

    assert (record.state, record.exit_code) == (TaskState.FAILED, 137)
    assert {step.state for step in record.steps} <= {"done", "failed"}
    assert record.steps[0].name == "report_all_the_time"
    assert TaskRecords(workspace).read(handle.task_id) == record
    events = read_events(directory / "events.jsonl").events
    assert (events[0].name, events[0].state) == ("report_all_the_time", "running")


async def test_killing_workers_while_they_write_leaves_readable_records(tmp_path: Path):
    moments = random.Random(11)
    async with application(tmp_path) as app:
        manager = app.context.component("task_manager")
        assert isinstance(manager, BaseTaskManager)
        for _ in range(5):
            await asyncio.gather(
                *(killed_at_random(manager, tmp_path, moments.uniform(0, 0.05)) for _ in range(4))
            )

    assert len(TaskRecords(tmp_path).find_all(state=TaskState.FAILED)) == 20


SERVICE = """
import asyncio, sys
from axonx import Application
from axonx.task.defaults import TASK_COMPONENTS
from support.research import ActTask

async def main():
    app = Application(providers=(ActTask,), workspace_dir=sys.argv[1], components=TASK_COMPONENTS)
    async with app:
        manager = app.context.component("task_manager")
        await manager.submit("act", {"action": sys.argv[2], "task_name": "one"})
        await asyncio.sleep(60)

asyncio.run(main())
"""


async def kill_the_service(workspace: Path, action: str) -> int:
    """Start a service with one Task, kill it with -9, and return the worker's process id."""
    environment = worker_environment({})
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVICE, str(workspace), action, env=environment
    )
    started = workspace / "base" / "base#act#one" / "persistent" / "started"
    await until_exists(started)
    process.kill()
    await process.wait()
    return int(started.read_text())


async def test_a_worker_ends_by_itself_when_its_service_is_killed(tmp_path: Path):
    pid = await kill_the_service(tmp_path, "sleep")

    async with asyncio.timeout(30):
        while not is_gone(pid):
            await asyncio.sleep(0.01)

    record = TaskRecords(tmp_path).read("base#act#one")
    assert (record.state, record.exit_code) == (TaskState.FAILED, 1)
    assert record.error == "The service that supervised this Task ended"
    assert (tmp_path / "base" / "base#act#one" / "persistent" / "closed").exists()


async def test_a_worker_that_does_not_listen_is_ended_by_the_next_start(tmp_path: Path):
    pid = await kill_the_service(tmp_path, "ignore_the_end")
    assert TaskRecords(tmp_path).read("base#act#one").state == TaskState.RUNNING
    components = TASK_COMPONENTS | {
        "task_manager": {"default": {"backend": "local", "terminate_grace_seconds": 0.1}}
    }

    async with Application(workspace_dir=str(tmp_path), components=components):
        assert is_gone(pid)
        record = TaskRecords(tmp_path).read("base#act#one")

    assert (record.state, record.exit_code) == (TaskState.FAILED, 1)


def run_worker(
    workspace: Path, run_id: str, target: str = ACT, code: str = ""
) -> subprocess.CompletedProcess[str]:
    code = f"import sys\nimport axonx.task.worker as worker\n{code}\nsys.exit(worker.main())"
    command = [sys.executable, "-c", code, "--workspace", str(workspace), "--task-id", "base#act#one"]
    command += ["--run-id", run_id, "--target", target]
    return subprocess.run(
        command, env=worker_environment({}), capture_output=True, text=True, timeout=60, check=False
    )


def test_a_worker_hands_out_the_exit_code_of_its_task(records: TaskRecords):
    record = a_record("base#act#one", input_params={"action": "print_lines"})
    records.claim(record)

    done = run_worker(records.layout.workspace_path, record.run_id)

    assert done.returncode == 0
    assert "first line" in done.stdout and "an error line" in done.stderr
    assert records.read("base#act#one").state == TaskState.SUCCEEDED


def test_processes_that_a_task_forks_end_by_signals_as_usual(records: TaskRecords):
    record = a_record("base#act#one", input_params={"action": "fork_and_terminate"})
    records.claim(record)

    done = run_worker(records.layout.workspace_path, record.run_id)

    assert done.stdout == f"child ended by {int(signal.SIGTERM)}\n"
    assert records.read("base#act#one").state == TaskState.SUCCEEDED


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_run_in_this_process_can_end_by_signals(tmp_path: Path, number: signal.Signals):
    code = (
        "import sys\nfrom axonx.task import execute_task\nfrom support.research import ActTask\n"
        "done = execute_task(ActTask, {'action': 'sleep', 'task_name': 'one'}, workspace_path=sys.argv[1],"
        " handle_signals=True)\nsys.exit(done.exit_code)"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(tmp_path), env=worker_environment({})
    )
    persistent = tmp_path / "base" / "base#act#one" / "persistent"
    await until_exists(persistent / "started")
    process.send_signal(number)

    assert await process.wait() == 130
    record = TaskRecords(tmp_path).read("base#act#one")
    assert (record.state, record.error) == (TaskState.CANCELLED, "Task cancelled")
    assert (persistent / "closed").exists()


def test_a_class_that_is_gone_fails_the_run_by_name(records: TaskRecords):
    record = a_record("base#act#one", input_params={"action": "print_lines"})
    records.claim(record)

    done = run_worker(records.layout.workspace_path, record.run_id, "support.research:GoneTask")

    assert done.returncode == 1
    assert "Task class support.research:GoneTask" in records.read("base#act#one").error


def test_a_worker_runs_no_other_run_than_its_own(records: TaskRecords):
    record = a_record("base#act#one", input_params={"action": "print_lines"})
    records.claim(record)

    done = run_worker(records.layout.workspace_path, "another")

    assert done.returncode == 1
    assert "Task run changed: base#act#one" in done.stderr
    assert records.read("base#act#one") == record


def test_a_run_that_was_cancelled_before_it_began_does_not_begin(records: TaskRecords):
    record = a_record("base#act#one", input_params={"action": "print_lines"}, cancel_requested=True)
    records.claim(record)

    done = run_worker(records.layout.workspace_path, record.run_id)

    assert (done.returncode, done.stdout) == (130, "")
    assert records.read("base#act#one").state == TaskState.CANCELLED


def test_a_worker_whose_service_is_gone_before_it_begins_fails(records: TaskRecords):
    other = a_record("base#act#one").supervisor.model_copy(update={"pid": 1})
    record = a_record("base#act#one", input_params={"action": "print_lines"}, supervisor=other)
    records.claim(record)

    done = run_worker(records.layout.workspace_path, record.run_id, code="import os; os.setsid()")

    assert done.returncode == -signal.SIGKILL
    assert done.stdout == ""
    assert records.read("base#act#one").error == "The service that supervised this Task ended"


def test_threads_that_never_end_do_not_keep_a_worker(records: TaskRecords):
    record = a_record("base#act#one", input_params={"action": "leave_a_thread"})
    records.claim(record)

    done = run_worker(records.layout.workspace_path, record.run_id, code="worker._LONGEST_EXIT_SECONDS = 0.2")

    assert done.returncode == 1
    assert "Timeout" in done.stderr and "Thread" in done.stderr
    assert records.read("base#act#one").state == TaskState.SUCCEEDED


def test_a_worker_imports_only_what_it_needs():
    code = (
        "import sys, axonx.task.worker\n"
        "heavy = {'asyncio', 'fastapi', 'jsonschema_rs', 'yaml', 'deerflow', 'axonx.application'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
