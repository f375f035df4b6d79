"""The commands, in this process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from axonx import __version__


def write(path: Path, config: Any) -> str:
    path.write_text(yaml.safe_dump(config))
    return str(path)


def test_a_job_answers_its_envelope_in_one_line(cli: Any) -> None:
    outcome = cli("run", "demo", "--name", "123")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out == '{"answer":"Hello, 123!","success":true,"metadata":{}}\n'


def test_events_are_lines_of_json_and_the_result_is_last(cli: Any) -> None:
    outcome = cli("run", "demo", "--stream")
    kinds = [json.loads(line)["kind"] for line in outcome.out.splitlines()]
    assert kinds == ["progress", "progress", "result"]
    assert outcome.status == 0


def test_fields_may_be_named_like_options(cli: Any, tmp_path: Path) -> None:
    file = write(tmp_path / "c.yaml", {"jobs": {"help": {"steps": [{"backend": "demo_step"}]}}})
    outcome = cli("run", "help", "--config", file, "--", "--config", "x", "--help", "1")
    assert outcome.status == 0
    outcome = cli("run", "help", f"--config={file}", "--name=--stream", "--n", "-5", "--m", "-x")
    assert json.loads(outcome.out)["answer"] == "Hello, --stream!"


@pytest.mark.parametrize("extra", [[], ["--stream"]])
def test_a_failed_job_is_status_1_with_its_answer(cli: Any, tmp_path: Path, extra: list[str]) -> None:
    job = {"steps": [{"backend": "get_status"}]}
    file = write(tmp_path / "c.yaml", {"jobs": {"j": job}})
    outcome = cli("run", "j", "--config", file, *extra)
    assert outcome.status == 1
    assert json.loads(outcome.out.splitlines()[-1])["success"] is False
    assert outcome.err.startswith("Error: ComponentNotFoundError: no component task_manager:default")
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["run", "nope"], "Error: UnknownJobError: Unknown job: 'nope' (configured: demo,"),
        (["run", "demo", "--nme", "x"], "Error: InvalidArgumentsError: Invalid arguments for job 'demo'"),
        (["run", "demo", "--name"], "Error: FieldError: --name has no value"),
        (["run", "demo", "name"], "Error: FieldError: expected --field VALUE"),
        (["run", "--name", "x"], "Error: UsageError: the name of the Job comes first"),
        (["run"], "Error: MissingParameter: Missing argument 'JOB'"),
        (["run", "demo", "--config", "gone.yaml"], "Error: FileNotFoundError: [Errno 2]"),
        (["run", "demo", "--target", "nowhere"], "Error: TargetError: Invalid target: 'nowhere'"),
        (
            ["run", "demo", "--target", "h:1", "--client-timeout", "0"],
            "Error: ConfigurationError: timeout_sec",
        ),
        (["nonsense"], "Error: NoSuchCommand: No such command 'nonsense'"),
        (["serve", "--host", "0.0.0.0"], "Error: ConfigurationError: service: host '0.0.0.0'"),
        (["serve", "--port", "x"], "Error: BadParameter: Invalid value for '--port'"),
        (["exec", "nope"], "Error: UnknownTaskError: Unknown Task: 'nope' (known: demo)"),
        (["exec", "--x", "1"], "Error: FieldError: the name of the Task comes first"),
        (["exec", "demo", "--x", "a"], "Error: ValidationError: x: Input should be a valid integer"),
        (["tasks", "show", "nope"], "Error: UnknownTaskError"),
        (["tasks", "logs", "nope"], "Error: ValueError: Invalid Task ID: 'nope'"),
        (["tasks", "delete", "base#demo#x"], "Error: TaskNotFoundError: Task not found: base#demo#x"),
        (["plugins", "show", "nope"], "Error: ConfigurationError: Unknown plugin: 'nope'"),
    ],
)
def test_wrong_use_is_status_2_in_one_line(cli: Any, arguments: list[str], error: str) -> None:
    outcome = cli(*arguments)
    assert outcome.status == 2
    assert outcome.out == ""
    assert outcome.err.startswith(error)
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("jobs: [", "Error: ConfigurationError: c.yaml: line 1"),
        ("", "Error: ConfigurationError: c.yaml: the configuration must be a mapping"),
        ("1: 2", "Error: ConfigurationError: c.yaml: the configuration must be a mapping"),
        (
            "colour: 1\njobs: {j: {steps: [{}]}}",
            "jobs.j.steps.0.backend: Field required; colour: Extra inputs",
        ),
        (
            "jobs: {}\njobs: {}",
            "Error: ConfigurationError: c.yaml: line 2, column 1: key 'jobs' is given twice",
        ),
        ("components: {x: {y: {backend: z}}}", "Error: UnknownProviderError: Unknown x backend: z"),
    ],
)
def test_a_wrong_configuration_is_status_2(cli: Any, tmp_path: Path, content: str, error: str) -> None:
    (tmp_path / "c.yaml").write_text(content)
    outcome = cli("run", "demo", "--config", "c.yaml")
    assert outcome.status == 2
    assert error in outcome.err
    assert outcome.err.count("\n") == 1


def test_the_file_in_the_directory_is_used_unless_another_is_named(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hello(name: str) -> dict[str, Any]:
        return {"jobs": {"hello": {"steps": [{"backend": "demo_step"}], "defaults": {"name": name}}}}

    write(tmp_path / "axonx.yaml", hello("default"))
    write(tmp_path / "b.yaml", hello("environment"))
    write(tmp_path / "c.yaml", hello("option"))
    assert "Hello, default!" in cli("run", "hello").out
    monkeypatch.setenv("AXONX_CONFIG", "b.yaml")
    assert "Hello, environment!" in cli("run", "hello").out
    assert "Hello, option!" in cli("run", "hello", "--config", "c.yaml").out
    monkeypatch.setenv("AXONX_CONFIG", "gone.yaml")
    assert cli("run", "hello").status == 2


def test_running_one_job_needs_no_port_and_no_clock(cli: Any, tmp_path: Path) -> None:
    config = {
        "jobs": {"hello": {"steps": [{"backend": "demo_step"}]}},
        "schedules": {"s": {"job": "hello", "cron": "* * * * * *"}},
        "service": {"backend": "http", "port": 1},
    }
    assert cli("run", "hello", "--config", write(tmp_path / "c.yaml", config)).status == 0


def test_debug_shows_the_traceback(cli: Any) -> None:
    with pytest.raises(ValueError, match="Unknown job"):
        cli("--debug", "run", "nope")


def test_a_task_runs_in_this_process_and_its_outcome_is_printed(cli: Any, tmp_path: Path) -> None:
    outcome = cli("exec", "demo", "--x", "1", "--y", "2", "--task_name", "42")
    assert outcome.status == 0
    printed = json.loads(outcome.out)
    assert printed["task_id"] == "base#demo#42"
    assert (printed["state"], printed["output"]["result"]) == ("succeeded", 3)
    assert (tmp_path / ".axonx" / "base" / "base#demo#42" / "metadata.json").exists()
    failed = cli("exec", "--task", "demo", "--x", "1", "--y", "2", "--fail", "true")
    assert failed.status == 1
    assert failed.err == "Error: RuntimeError: The demo was asked to fail\n"
    assert json.loads(failed.out)["state"] == "failed"


def test_exec_alone_lists_tasks_with_their_classes(cli: Any) -> None:
    assert cli("exec").out == "demo\taxonx.task.demo.DemoTask\n"


def test_runs_are_listed_read_and_removed(cli: Any) -> None:
    for name, fail in (("one", "false"), ("two", "true")):
        cli("exec", "demo", "--x", "1", "--y", "2", "--task_name", name, "--fail", fail)
    lines = [line.split("\t") for line in cli("tasks", "runs").out.splitlines()]
    assert [(line[0], line[1]) for line in lines] == [
        ("base#demo#one", "succeeded"),
        ("base#demo#two", "failed"),
    ]
    assert lines[1][3] == "RuntimeError: The demo was asked to fail"
    (record,) = [
        json.loads(line) for line in cli("tasks", "runs", "--json", "--state", "failed").out.splitlines()
    ]
    assert record["task_id"] == "base#demo#two"
    assert "Added x" in cli("tasks", "logs", "base#demo#one").out
    assert cli("tasks", "logs", "base#demo#one", "--follow").out == cli("tasks", "logs", "base#demo#one").out
    assert cli("tasks", "cancel", "base#demo#one").out == "false\n"
    assert cli("tasks", "delete", "base#demo#one", "base#demo#two").out == "base#demo#one\nbase#demo#two\n"
    assert cli("tasks", "runs").out == ""


def test_tasks_are_listed_and_shown(cli: Any) -> None:
    assert cli("tasks", "list").out.startswith("demo\tbase\tnative\tAdd two numbers")
    shown = json.loads(cli("tasks", "show", "demo").out)
    assert shown["name"] == "demo"
    assert set(shown["input_schema"]["properties"]) >= {"x", "y"}


def test_help_and_version_are_told(cli: Any) -> None:
    assert cli("--version").out == f"axonx, version {__version__}\n"
    text = cli("--help").out
    for name in ("run", "serve", "exec", "tasks", "plugins"):
        assert name in text
    assert "Call the Job of the service" in cli("run", "--help").out
    assert cli().status == 2


def loaded_by(tmp_path: Path, *arguments: str) -> set[str]:
    """The modules that a new process has loaded after a command."""
    code = (
        "import json, sys\nfrom axonx.cli.main import run\n"
        f"assert run({arguments!r}) == 0\nprint(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=tmp_path)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_help_loads_neither_the_framework_nor_any_command(tmp_path: Path) -> None:
    loaded = loaded_by(tmp_path, "--help")
    assert {name for name in loaded if name.startswith("axonx.")} == {
        *("axonx.cli", "axonx.cli.main", "axonx.cli.failures")
    }
    assert not loaded & {"asyncio", "pydantic", "yaml"}


def test_running_a_job_loads_no_service_no_client_and_no_scheduler(tmp_path: Path) -> None:
    assert not loaded_by(tmp_path, "run", "version") & {"fastapi", "uvicorn", "httpx", "mcp", "cronsim"}
