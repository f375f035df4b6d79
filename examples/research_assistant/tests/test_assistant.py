"""The script prints what the README shows, and leaves a report."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
(CONSOLE,) = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
COMMANDS: dict[str, str] = dict(re.findall(r"\$ python (.+)\n([^$]*)", CONSOLE))

REPORT = """\
# Masses of the planets

Masses are multiples of that of the Earth.

## By kind

| kind | sum of mass_earths |
| --- | --- |
| gas giant | 413.0 |
| ice giant | 31.6 |
| terrestrial | 1.9773 |

## The heaviest

| name | mass_earths |
| --- | --- |
| Jupiter | 317.8 |
| Saturn | 95.2 |
| Neptune | 17.1 |
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_the_assistant_answers_as_the_readme_says(tmp_path: Path, command: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DEER_FLOW_HOME"}
    done = subprocess.run(
        [sys.executable, *shlex.split(command)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == COMMANDS[command]
    reports = [path.read_text() for path in tmp_path.glob(".deer-flow/threads/*/workspace/artifacts/*.md")]
    assert reports == ([REPORT] if "artifacts" in done.stdout else [])


def test_the_readme_shows_two_questions() -> None:
    assert len(COMMANDS) == 2
