"""The pytest plugin costs nothing until a test asks for a host, and needs no development dependency."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

PLUGIN = "deerflow.testing.plugin"
DEVELOPMENT_ONLY = ("hypothesis", "blockbuster", "pytest_timeout", "langgraph_api", "openai", "ruff")

TEST = """
from deerflow.testing import LEAD

def test_it(deerflow_host):
    host = deerflow_host("tool_call_counter:install")
    (run,) = host.play(LEAD)
    assert run.answer == "echo: hello"
    assert host.problems == ()
"""


def _python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_plugin_imports_no_agent_framework() -> None:
    code = (
        f"import sys, {PLUGIN}; print([m for m in ('langgraph', 'langchain', 'fastapi') if m in sys.modules])"
    )
    assert _python(code) == "[]"


def test_everything_is_importable_without_development_dependencies() -> None:
    block = f"sys.modules.update(dict.fromkeys({DEVELOPMENT_ONLY!r}))"
    code = (
        f"import sys; {block}; import deerflow.testing as t; [getattr(t, n) for n in t.__all__]; print('ok')"
    )
    assert _python(code) == "ok"


def test_a_test_of_an_author_finds_the_fixture(tmp_path: Path) -> None:
    (tmp_path / "test_author.py").write_text(TEST)
    installed = any(point.value == PLUGIN for point in entry_points(group="pytest11"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    done = subprocess.run(
        [*command, *([] if installed else ["-p", PLUGIN]), str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr
