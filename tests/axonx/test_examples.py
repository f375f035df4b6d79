"""The examples print what their page says, and leave nothing behind."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "axonx"
PAGE = (EXAMPLES / "README.md").read_text("utf-8")
COMMANDS: dict[str, str] = dict(re.findall(r"```console\n\$ python (.+)\n([^`]*)```", PAGE))


def run(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    script, *arguments = shlex.split(command)
    words = [sys.executable, "-W", "error", str(ROOT / script), *arguments]
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_example_prints_what_the_page_says(tmp_path: Path, command: str) -> None:
    done = run(command, tmp_path)
    assert done.stdout == COMMANDS[command]
    assert list(tmp_path.iterdir()) == []


def test_format_text_prints_the_response_and_leaves_nothing(tmp_path: Path) -> None:
    done = run("examples/axonx/format_text.py", tmp_path)
    assert done.stdout == "{'answer': 'AxonX: hello', 'success': True, 'metadata': {}}\n"
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_report_cache_runs_a_job_from_yaml_and_its_dependency(tmp_path: Path) -> None:
    done = run("examples/axonx/report_cache.py text", tmp_path)
    assert "result {'answer': 'AxonX: text', 'metadata': {'mode': 'simple'}}" in done.stdout
    assert "AxonX: cache ready" in done.stderr


def test_the_page_names_every_example() -> None:
    linked = set(re.findall(r"\]\(([\w.]+)\)", PAGE))
    assert linked == {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".yaml")}
    shown = {Path(command.split()[0]).name for command in COMMANDS}
    scripts = {path.name for path in EXAMPLES.glob("*.py") if "asyncio.run" in path.read_text("utf-8")}
    assert shown == scripts
