from __future__ import annotations

import functools
import logging
import math
import os
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support.research import CountLettersTask, RepeatWordTask
from support.task_records import a_record, an_ended_process

from axonx.components.registry import provider
from axonx.task import (
    ArtifactRecord,
    BaseInputParams,
    BaseOutputParams,
    BaseTask,
    TaskExecution,
    TaskState,
    TaskType,
    execute_task,
)
from axonx.task.demo import DemoTask
from axonx.task.event_log import read_events
from axonx.task.records import TaskRecords


class NumberOutput(BaseOutputParams):
    number: float = 0.0
    anything: Any = None


@provider("scripted")
class ScriptedTask(BaseTask):
    """A Task whose parts the tests replace."""

    output_cls = NumberOutput
    called: list[str]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        ScriptedTask.latest = self
        self.called = []

    latest: BaseTask

    def build_task_steps(self) -> Iterable[Any]:
        return [self.step]

    def step(self) -> None:
        self.called.append("step")

    def build_output_params(self) -> BaseOutputParams:
        return NumberOutput()

    def on_failure(self, error: BaseException) -> None:
        self.called.append(f"on_failure {type(error).__name__}")

    def close(self) -> None:
        self.called.append("close")


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., TaskExecution]:
    def execute(input_params: Any = None, **replaced: Any) -> TaskExecution:
        task_cls = type("Scripted", (ScriptedTask,), replaced)
        return execute_task(task_cls, input_params or {}, workspace_path=tmp_path, reg_name="scripted")

    return execute


def test_a_task_that_succeeds(tmp_path: Path):
    execution = execute_task(RepeatWordTask, {"word": "ab", "times": 3}, workspace_path=tmp_path)

    record = execution.metadata
    assert record.state == TaskState.SUCCEEDED
    assert (record.exit_code, record.error, execution.exit_code) == (0, "", 0)
    assert execution.output["text"] == "ababab"
    assert execution.output_params is not None and execution.output_params.artifacts["text"].size == 6
    assert record.task_id.startswith("etl#repeat_word#")
    assert (record.category, record.task_type, record.source.kind) == ("words", TaskType.ETL, "exec")
    assert record.input_params["times"] == 3
    assert [(step.name, step.state) for step in record.steps] == [("repeat", "done"), ("publish", "done")]
    assert record.created_at <= record.started_at <= record.finished_at
    assert str(record.created_at.tzinfo) == "UTC"
    assert TaskRecords(tmp_path).read(record.task_id) == record


@pytest.mark.parametrize(
    ("x", "y", "branch", "operands"), [(1, 2, "different", ["x", "y"]), (2, 2, "equal", ["x"])]
)
def test_the_demo_chooses_its_steps_by_its_state(
    tmp_path: Path, x: int, y: int, branch: str, operands: list[str]
):
    execution = execute_task(DemoTask, {"x": x, "y": y}, workspace_path=tmp_path)

    assert execution.output["result"] == x + y
    assert (execution.output["branch"], execution.output["operands"]) == (branch, operands)
    report = tmp_path / "base" / execution.metadata.task_id / "report.txt"
    assert report.read_text() == f"{x} + {y} = {x + y}\n"


def test_every_step_is_appended_to_the_events_once_more_at_the_end(tmp_path: Path):
    record = execute_task(RepeatWordTask, {}, workspace_path=tmp_path).metadata

    events = read_events(TaskRecords(tmp_path).layout.events_path(record.task_id)).events

    assert [(event.name, event.state) for event in events] == [
        ("repeat", "running"),
        ("repeat", "done"),
        ("publish", "running"),
        ("publish", "done"),
        ("repeat", "done"),
        ("publish", "done"),
    ]


def test_a_failing_step_ends_the_run_but_not_the_caller(run: Callable[..., TaskExecution]):
    def step(self: BaseTask) -> None:
        raise KeyError("nope")

    execution = run(step=step)

    assert (execution.metadata.state, execution.exit_code) == (TaskState.FAILED, 1)
    assert execution.metadata.error == "KeyError: 'nope'"
    assert execution.output_params is None and execution.output == {}
    assert execution.metadata.steps[-1].error == "KeyError: 'nope'"
    assert ScriptedTask.latest.called == ["on_failure KeyError", "close"]


def test_close_is_called_in_every_run(run: Callable[..., TaskExecution]):
    run()

    assert ScriptedTask.latest.called == ["step", "close"]


def test_hooks_that_fail_do_not_hide_the_first_failure(run: Callable[..., TaskExecution], tmp_path: Path):
    def fail(self: BaseTask, *_: Any) -> None:
        raise ValueError(f"number {len(self.called)}")

    def close(self: BaseTask) -> None:
        self.called.append("close")
        raise OSError("close")

    execution = run(step=fail, on_failure=fail, close=close)

    assert execution.metadata.error == "ValueError: number 0"
    assert ScriptedTask.latest.called == ["close"]
    log = (tmp_path / execution.metadata.log_path).read_text()
    assert "on_failure() failed as well" in log and "OSError: close" in log


def test_a_close_that_fails_fails_the_run(run: Callable[..., TaskExecution]):
    def close(self: BaseTask) -> None:
        raise OSError("disk")

    assert run(close=close).metadata.error == "OSError: disk"


def test_leaving_by_sys_exit_is_a_failure(run: Callable[..., TaskExecution]):
    def step(self: BaseTask) -> None:
        sys.exit(0)

    execution = run(step=step)

    assert (execution.metadata.state, execution.exit_code) == (TaskState.FAILED, 1)
    assert execution.metadata.error == "SystemExit: 0"


def test_a_keyboard_interrupt_is_recorded_as_cancelled_and_goes_on(
    run: Callable[..., TaskExecution], tmp_path: Path
):
    def step(self: BaseTask) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run({"task_name": "one"}, step=step)

    record = TaskRecords(tmp_path).read("base#scripted#one")
    assert (record.state, record.exit_code, record.error) == (TaskState.CANCELLED, 130, "Task cancelled")
    assert ScriptedTask.latest.called == ["on_failure KeyboardInterrupt", "close"]


def test_steps_are_advanced_lazily_and_their_generator_is_closed(run: Callable[..., TaskExecution]):
    def build_task_steps(self: BaseTask) -> Iterable[Any]:
        try:
            while len(self.called) < 2:
                yield self.step
            yield functools.partial(self.called.append, "partial")
            yield lambda: 1 / 0
        finally:
            self.called.append("generator closed")

    execution = run(build_task_steps=build_task_steps)

    assert ScriptedTask.latest.called == [
        "step",
        "step",
        "partial",
        "generator closed",
        "on_failure ZeroDivisionError",
        "close",
    ]
    assert [step.name for step in execution.metadata.steps] == ["step", "step-2", "append", "<lambda>"]


async def a_coroutine(_: Any = None) -> None: ...


class AsyncCallable:
    async def __call__(self) -> None: ...


@pytest.mark.parametrize(
    ("steps", "error"),
    [
        ([a_coroutine], "TypeError: Task step 'a_coroutine' must be synchronous"),
        ([functools.partial(a_coroutine, 1)], "TypeError: Task step 'a_coroutine' must be synchronous"),
        ([lambda: a_coroutine()], "TypeError: Task step '<lambda>' returned an awaitable"),
        ([AsyncCallable()], "TypeError: Task step 'AsyncCallable' returned an awaitable"),
        (["text"], "TypeError: Task step must be callable, got str"),
        (5, "TypeError: 'int' object is not iterable"),
    ],
)
def test_what_is_no_synchronous_step_is_refused(run: Callable[..., TaskExecution], steps: Any, error: str):
    assert run(build_task_steps=lambda self: steps).metadata.error == error


def test_steps_from_asynchronous_functions_are_refused(run: Callable[..., TaskExecution]):
    async def generator(self: BaseTask) -> Any:
        yield self.step

    assert "must be a synchronous" in run(build_task_steps=generator).metadata.error


def test_a_wrong_output_type_fails_the_run(run: Callable[..., TaskExecution]):
    execution = run(build_output_params=lambda self: BaseOutputParams())

    assert execution.metadata.error == "TypeError: Scripted.build_output_params must return NumberOutput"


def test_an_output_that_json_cannot_hold_fails_the_run(run: Callable[..., TaskExecution]):
    for value in (object(), "\ud800"):
        execution = run(build_output_params=lambda self, value=value: NumberOutput(anything=value))

        assert execution.metadata.state == TaskState.FAILED
        assert "serializ" in execution.metadata.error


def test_a_result_that_is_no_number_is_recorded_as_null(run: Callable[..., TaskExecution]):
    execution = run(build_output_params=lambda self: NumberOutput(number=math.nan))

    assert execution.metadata.state == TaskState.SUCCEEDED
    assert execution.output["number"] is None


@pytest.mark.parametrize("code", [1, 7, 255, True])
def test_an_exit_code_fails_the_run(run: Callable[..., TaskExecution], code: int):
    execution = run(exit_code=staticmethod(lambda output: code))

    assert (execution.metadata.state, execution.exit_code) == (TaskState.FAILED, code)
    assert execution.metadata.error == f"Task exited with code {int(code)}"
    assert ScriptedTask.latest.called == ["step", "on_failure TaskExitError", "close"]


@pytest.mark.parametrize("code", [256, -1, 1000, None, "0", 1.0])
def test_exit_codes_outside_of_the_range_are_refused_and_named(
    run: Callable[..., TaskExecution], tmp_path: Path, code: Any
):
    execution = run(exit_code=lambda self, output: code)

    assert (execution.metadata.state, execution.exit_code) == (TaskState.FAILED, 1)
    assert "Scripted.exit_code must return an integer from 0 to 255, got" in execution.metadata.error
    assert TaskRecords(tmp_path).read(execution.metadata.task_id) == execution.metadata


def test_the_exit_code_gets_the_output_as_json(run: Callable[..., TaskExecution]):
    seen = []

    run(exit_code=lambda self, output: seen.append(output) or 0)

    assert seen == [{"artifacts": {}, "number": 0.0, "anything": None}]


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda path: path.unlink(), "ArtifactError: Artifact 'table' is missing: table.csv"),
        (lambda path: path.write_text("more"), "ArtifactError: Artifact 'table' has changed"),
        (lambda path: path.write_text("xyz"), "ArtifactError: Artifact 'table' has changed"),
    ],
)
def test_an_artifact_that_is_missing_or_changed_at_the_end_fails_the_run(
    run: Callable[..., TaskExecution], spoil: Callable[[Path], None], error: str
):
    def step(self: BaseTask) -> None:
        (self.task_dir / "table.csv").write_text("abc")
        self.publish_artifact("table", "table.csv")
        spoil(self.task_dir / "table.csv")

    execution = run(step=step)

    assert execution.metadata.state == TaskState.FAILED
    assert execution.metadata.error.startswith(error)
    assert execution.output == {}
    assert ScriptedTask.latest.called == ["on_failure ArtifactError", "close"]


def test_an_artifact_that_close_changes_fails_the_run(run: Callable[..., TaskExecution]):
    def step(self: BaseTask) -> None:
        (self.task_dir / "table.csv").write_text("abc")
        self.publish_artifact("table", "table.csv")

    def close(self: BaseTask) -> None:
        (self.task_dir / "table.csv").write_text("")

    assert "Artifact 'table' has changed" in run(step=step, close=close).metadata.error


def test_an_artifact_record_by_hand_must_match_its_file(run: Callable[..., TaskExecution]):
    def with_size(size: int) -> TaskExecution:
        def build_output_params(self: BaseTask) -> BaseOutputParams:
            (self.task_dir / "x").write_text("abc")
            record = ArtifactRecord(path="x", size=size, revision="1:1")
            return NumberOutput(artifacts={"table": record})

        return run(build_output_params=build_output_params)

    assert len(with_size(3).output["artifacts"]["table"]["sha256"]) == 64
    assert "Artifact 'table' has changed" in with_size(4).metadata.error


def test_artifacts_are_published_by_path_inside_of_the_task_only(run: Callable[..., TaskExecution]):
    def step(self: BaseTask) -> None:
        path = self.task_dir / "deep" / "x"
        path.parent.mkdir()
        path.touch()
        assert self.publish_artifact("a", path).path == "deep/x"
        assert self.publish_artifact("b", Path("deep/x")).path == "deep/x"
        assert self.artifact_path("a") == path
        for outside in ("/etc/passwd", self.task_dir.parent / "x", self.task_dir / ".." / "x", "../x"):
            with pytest.raises(ValueError, match="Artifact must be a relative task path"):
                self.publish_artifact("c", outside)
        with pytest.raises(ValueError, match="'c' is not published by"):
            self.artifact_path("c")

    execution = run(step=step)

    assert execution.metadata.error == ""
    assert list(execution.output["artifacts"]) == ["a", "b"]


def test_a_relative_workspace_works_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    execution = execute_task(DemoTask, {"x": 1, "y": 1}, workspace_path=".axonx")

    assert execution.metadata.error == ""
    assert (tmp_path / ".axonx" / execution.metadata.log_path).exists()


def test_a_source_artifact_is_handed_over(tmp_path: Path):
    source = execute_task(RepeatWordTask, {"word": "abc"}, workspace_path=tmp_path).metadata

    execution = execute_task(CountLettersTask, {"source_tasks": source.task_id}, workspace_path=tmp_path)

    assert execution.metadata.error == ""
    assert execution.output["text"] == "3"


def test_a_source_artifact_is_verified_again(tmp_path: Path):
    source = execute_task(RepeatWordTask, {"word": "abc"}, workspace_path=tmp_path).metadata
    (tmp_path / "etl" / source.task_id / "out" / "text.txt").write_text("xyz")

    execution = execute_task(CountLettersTask, {"source_tasks": source.task_id}, workspace_path=tmp_path)

    assert f"Artifact '{source.task_id}:text' has changed" in execution.metadata.error


def test_sources_must_be_declared_known_and_succeeded(run: Callable[..., TaskExecution], tmp_path: Path):
    def asking(task_id: str, name: str = "text") -> Callable[[BaseTask], None]:
        return lambda self: self.source_artifact(task_id, name)

    TaskRecords(tmp_path).claim(a_record("etl#a#active"))
    source = execute_task(RepeatWordTask, {}, workspace_path=tmp_path).metadata.task_id

    assert "is not in source_tasks" in run(step=asking(source)).metadata.error
    error = run({"source_tasks": "etl#a#none"}, step=asking("etl#a#none")).metadata.error
    assert error == "TaskNotFoundError: Task not found: etl#a#none"
    error = run({"source_tasks": "etl#a#active"}, step=asking("etl#a#active")).metadata.error
    assert error == "ValueError: Source Task has not succeeded: etl#a#active is queued"
    error = run({"source_tasks": source}, step=asking(source, "nope")).metadata.error
    assert "Artifact 'nope' is not published by" in error and "it has: text" in error


def test_wrong_input_is_refused_before_anything_is_written(tmp_path: Path):
    with pytest.raises(ValidationError, match="valid integer"):
        execute_task(RepeatWordTask, {"times": "x"}, workspace_path=tmp_path)
    with pytest.raises(ValidationError, match="Extra inputs"):
        execute_task(RepeatWordTask, {"wrod": "x"}, workspace_path=tmp_path)
    with pytest.raises(TypeError, match="RepeatWordTask takes a WordInput or a mapping, got BaseInputParams"):
        execute_task(RepeatWordTask, BaseInputParams(), workspace_path=tmp_path)
    with pytest.raises(ValueError, match="A Task cannot be its own source: etl#repeat_word#me"):
        execute_task(
            RepeatWordTask,
            {"task_name": "me", "source_tasks": "etl#repeat_word#me"},
            workspace_path=tmp_path,
        )
    with pytest.raises(ValueError, match="Unknown timezone"):
        execute_task(RepeatWordTask, {}, workspace_path=tmp_path, timezone="Mars")

    assert list(tmp_path.iterdir()) == []


def test_a_class_without_registered_name_needs_one(tmp_path: Path):
    class Unnamed(RepeatWordTask):
        pass

    with pytest.raises(
        ValueError, match=r"Unnamed has no registered name: decorate it with @provider\(name\)"
    ):
        execute_task(Unnamed, {}, workspace_path=tmp_path)
    with pytest.raises(ValueError, match=r"Invalid registered Task name: '../x'"):
        execute_task(Unnamed, {}, workspace_path=tmp_path, reg_name="../x")
    execution = execute_task(Unnamed, {"task_name": "a"}, workspace_path=tmp_path, reg_name="named")
    assert execution.metadata.task_id == "etl#named#a"


def test_a_class_that_cannot_be_imported_runs_in_process(tmp_path: Path):
    @provider("local_class")
    class LocalTask(RepeatWordTask):
        pass

    assert execute_task(LocalTask, {}, workspace_path=tmp_path).metadata.state == TaskState.SUCCEEDED


def test_times_and_names_follow_the_timezone(tmp_path: Path):
    execution = execute_task(RepeatWordTask, {}, workspace_path=tmp_path, timezone="Asia/Shanghai")

    created = execution.metadata.created_at
    assert created.utcoffset().total_seconds() == 8 * 3600
    assert execution.metadata.task_id.split("#")[2].startswith(f"{created:%Y%m%d%H}")


def test_a_failing_constructor_is_a_failure_of_the_run(run: Callable[..., TaskExecution]):
    def __init__(self: BaseTask, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("no database")

    execution = run(__init__=__init__)

    assert (execution.metadata.state, execution.metadata.error) == (
        TaskState.FAILED,
        "RuntimeError: no database",
    )


def test_the_name_of_an_active_task_is_taken(run: Callable[..., TaskExecution]):
    def step(self: BaseTask) -> None:
        with pytest.raises(FileExistsError, match="Active Task already exists: base#scripted#one"):
            run({"task_name": "one"})

    assert run({"task_name": "one"}, step=step).metadata.error == ""


def test_a_run_that_was_abandoned_does_not_keep_its_name(run: Callable[..., TaskExecution], tmp_path: Path):
    TaskRecords(tmp_path).claim(a_record("base#scripted#one", supervisor=an_ended_process()))

    assert run({"task_name": "one"}).metadata.state == TaskState.SUCCEEDED


def test_a_rerun_finds_its_persistent_files_only(run: Callable[..., TaskExecution]):
    def step(self: BaseTask) -> None:
        counter = self.persistent_dir / "runs"
        runs = int(counter.read_text()) if counter.exists() else 0
        assert not (self.task_dir / "scratch").exists()
        (self.task_dir / "scratch").touch()
        counter.write_text(str(runs + 1))

    for _ in range(3):
        execution = run({"task_name": "one"}, step=step)
        assert execution.metadata.error == ""

    assert (ScriptedTask.latest.persistent_dir / "runs").read_text() == "3"


def test_a_generated_name_replaces_no_other_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    names = iter(["first", "first", "first", "second"])
    monkeypatch.setattr("axonx.task.base.generated_task_name", lambda created_at: next(names))

    ids = [execute_task(RepeatWordTask, {}, workspace_path=tmp_path).metadata.task_id for _ in range(2)]

    assert ids == ["etl#repeat_word#first", "etl#repeat_word#second"]


def test_the_log_tells_the_story_without_values_of_variables(
    run: Callable[..., TaskExecution], tmp_path: Path
):
    def step(self: BaseTask) -> None:
        password = "hunter2"[:]
        self.logger.info("working")
        raise RuntimeError(f"length {len(password)}")

    execution = run(step=step)

    log = (tmp_path / execution.metadata.log_path).read_text()
    assert "INFO axonx.task.scripted: working" in log
    assert "Traceback" in log and "RuntimeError: length 7" in log


def test_nothing_is_written_to_the_terminal(
    run: Callable[..., TaskExecution], capfd: pytest.CaptureFixture[str]
):
    def step(self: BaseTask) -> None:
        raise RuntimeError

    run(step=step)

    assert capfd.readouterr() == ("", "")


def test_the_host_can_listen_to_the_logs_of_tasks(
    run: Callable[..., TaskExecution], caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO, "axonx.task")

    run(step=lambda self: self.logger.info("working"))

    assert "working" in caplog.text
    known = [name for name in logging.Logger.manager.loggerDict if name.startswith("axonx.task.scripted")]
    assert known == []


def test_progress_is_refused_outside_of_a_step(run: Callable[..., TaskExecution], tmp_path: Path):
    with pytest.raises(RuntimeError, match="only while a step"):
        DemoTask({"x": 1, "y": 1}, workspace_path=tmp_path).report_progress(1)

    execution = run(build_output_params=lambda self: self.report_progress(5) or NumberOutput())
    assert execution.metadata.error.startswith("RuntimeError: report_progress() works only while a step")


def test_output_is_there_when_the_steps_have_ended(tmp_path: Path, run: Callable[..., TaskExecution]):
    with pytest.raises(RuntimeError, match="Task has no output yet: base#demo#"):
        DemoTask({"x": 1, "y": 1}, workspace_path=tmp_path).output_params.artifacts.clear()

    seen = []
    run(close=lambda self: seen.append(self.output))
    assert seen == [{"artifacts": {}, "number": 0.0, "anything": None}]


def test_a_task_knows_who_it_is(tmp_path: Path):
    task = RepeatWordTask({"task_name": "one"}, workspace_path=tmp_path)

    assert (task.task_id, task.reg_name) == ("etl#repeat_word#one", "repeat_word")
    assert task.task_dir == tmp_path / "etl" / "etl#repeat_word#one"
    assert task.persistent_dir == task.task_dir / "persistent"
    assert len(task.run_id) == 32
    with pytest.raises(ValueError, match="does not belong to etl#repeat_word"):
        RepeatWordTask({}, workspace_path=tmp_path, task_id="train#repeat_word#one")


def test_tasks_run_in_threads_as_well(tmp_path: Path, nothing_leaks: None):
    found: list[TaskState] = []

    def work() -> None:
        found.append(execute_task(DemoTask, {"x": 1, "y": 2}, workspace_path=tmp_path).metadata.state)

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [TaskState.SUCCEEDED] * 5


def test_a_disk_that_is_full_raises_and_leaves_no_active_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def no_space(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("axonx.task.execute.EventLogWriter", no_space)

    with pytest.raises(OSError, match="No space left"):
        execute_task(DemoTask, {"x": 1, "y": 2, "task_name": "full"}, workspace_path=tmp_path)

    record = TaskRecords(tmp_path).read("base#demo#full")
    assert record.state == TaskState.FAILED
    assert "No space left" in record.error
    assert record.task_type == TaskType.BASE and os.path.isdir(tmp_path)
