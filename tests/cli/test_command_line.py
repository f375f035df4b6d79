"""The `deerflow` command, as a person at a shell meets it."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

_DEERFLOW = str(Path(sys.executable).with_name("deerflow"))


def _run(
    *arguments: str, cwd: Path, text: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [_DEERFLOW, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        input=text or "",
    )


def test_demo_outlines_each_file_in_its_own_subagent(tmp_path: Path) -> None:
    (tmp_path / "one.md").write_text("# One\n\nFirst sentence here. Second.\n\n## Part\n\nMore words.\n")
    (tmp_path / "two.md").write_text("# Two\n\nAnother file.\n")
    done = _run("demo", "one.md", "two.md", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sum("subagent" in line and line.endswith(" s") and "started" in line for line in lines) == 2
    assert any(line.startswith("one.md: 2 headings") for line in lines)
    assert "- One: First sentence here." in lines
    assert any(line.startswith("two.md: 1 heading") for line in lines)
    assert lines[-1] == "Tool calls: 4 (read_file 2, task 2) in 3 tasks"
    assert not (tmp_path / ".deer-flow").exists()


def test_chat_answers_and_goes_on_with_its_thread(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "models:\n  - name: scripted\n    use: deerflow.models:ScriptedChatModel\n"
        "    rules: [{when: '', turns: [{text: 'echo: {prompt}'}]}]\n"
    )
    thread = "0a5cf1f3-4b3a-4d7e-9d64-0a3c0c3e7a11"
    assert _run("chat", "hello", "--thread", thread, cwd=tmp_path).stdout == "echo: hello\n"
    piped = _run("chat", "--thread", thread, cwd=tmp_path, text="from a pipe")
    assert piped.stdout == "echo: from a pipe\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["demo", "missing.md"], "missing.md"),
        (["chat", "--bogus"], "--bogus"),
        (["serve", "--port", "70000"], "70000"),
    ],
)
def test_wrong_use_is_one_line_and_status_two(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = _run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_a_failure_is_one_line_and_status_one(tmp_path: Path) -> None:
    done = _run("chat", "hello", "--config", "missing.yaml", cwd=tmp_path)
    assert done.returncode == 1
    assert "missing.yaml" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    done = _run("--debug", "chat", "hello", "--config", "missing.yaml", cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_help_names_the_commands(tmp_path: Path) -> None:
    done = _run("--help", cwd=tmp_path)
    assert done.returncode == 0
    for command in ("demo", "chat", "serve", "db"):
        assert command in done.stdout


def test_the_database_is_upgraded_once_and_a_revision_finds_nothing_to_do(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("database: {backend: sqlite}\n")
    assert _run("db", "upgrade", cwd=tmp_path).stdout.startswith("upgraded from an empty database")
    assert _run("db", "upgrade", cwd=tmp_path).stdout.startswith("the database is at this release")
    written = _run("db", "revision", "--autogenerate", "-m", "nothing", "--dir", "versions", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    script = Path(written.stdout.strip()).read_text()
    assert "op." not in script.partition("def upgrade")[2]


def test_another_address_than_loopback_is_refused_without_users(tmp_path: Path) -> None:
    done = _run("serve", "--host", "0.0.0.0", cwd=tmp_path)
    assert done.returncode == 1
    assert "auth.mode" in done.stderr and len(done.stderr.splitlines()) == 1


def test_workers_that_could_not_share_runs_are_refused(tmp_path: Path) -> None:
    done = _run("serve", "--workers", "2", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "deerflow: database.backend: 'sqlite' lets one process write at a time, and 2 workers share all they "
        "know; set postgres, or serve with one worker\n"
    )


def test_a_port_that_is_taken_is_said_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = _run("serve", "--port", str(port), cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        f"deerflow: cannot serve at 127.0.0.1, port {port}: Address already in use; "
        "choose another --host or --port\n"
    )
    assert not (tmp_path / ".deer-flow").exists()


_REFUSING = """
def install(registry, config):
    raise RuntimeError("set ACME_KEY first")
"""


def test_an_extension_that_keeps_the_gateway_from_starting_is_quoted_in_the_last_line(tmp_path: Path) -> None:
    (tmp_path / "acme.py").write_text(_REFUSING)
    (tmp_path / "config.yaml").write_text("plugins: [{use: 'acme:install', required: true}]\n")
    done = _run("serve", "--port", "0", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "deerflow: required extension acme:install failed to install: install() failed: set ACME_KEY first"
    )


def test_tables_of_a_disabled_extension_are_left_alone_by_a_revision(tmp_path: Path) -> None:
    plugin = "{use: 'no_such_module:install', enabled: false, table_prefix: acme_}"
    database = "database: {backend: sqlite, url: 'sqlite:///host.db'}\n"
    (tmp_path / "config.yaml").write_text(f"{database}plugins: [{plugin}]\n")
    _run("db", "upgrade", cwd=tmp_path)
    with sqlite3.connect(tmp_path / "host.db") as connection:
        connection.execute("CREATE TABLE acme_entries (id INTEGER PRIMARY KEY)")
    connection.close()
    written = _run("db", "revision", "--autogenerate", "-m", "nothing", "--dir", "versions", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    assert "acme_entries" not in Path(written.stdout.strip()).read_text()


def test_a_prefix_that_covers_host_tables_is_refused_before_a_revision_is_written(tmp_path: Path) -> None:
    plugin = "{use: 'no_such_module:install', table_prefix: ru}"
    (tmp_path / "config.yaml").write_text(f"database: {{backend: sqlite}}\nplugins: [{plugin}]\n")
    done = _run("db", "revision", "--autogenerate", "-m", "x", "--dir", "versions", cwd=tmp_path)
    assert done.returncode == 1
    assert "extension table_prefix 'ru' would hide host-owned table(s)" in done.stderr
    assert not (tmp_path / "versions").exists()


def test_warnings_are_one_line_each_unless_tracebacks_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("plugins: [{use: 'missing_package:install'}]\n")
    said = "deerflow: Extension missing_package:install: could not resolve extension entry point: "
    quiet = _run("chat", "hello", cwd=tmp_path)
    assert quiet.returncode == 0
    assert quiet.stderr.splitlines() == [f"{said}No module named 'missing_package'"]
    assert "Traceback" in _run("--debug", "chat", "hello", cwd=tmp_path).stderr


def test_a_failed_chat_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "models:\n  - name: scripted\n    use: deerflow.models:ScriptedChatModel\n"
        "    rules: [{when: '', turns: [{error: 'no quota'}]}]\n"
    )
    done = _run("chat", "hello", cwd=tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.endswith("failed: ScriptedModelError: no quota")
