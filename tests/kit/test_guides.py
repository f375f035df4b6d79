"""The pages for authors and operators are followed to the letter."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from support.environments import ThrowAway, throw_away

from deerflow import testing
from deerflow.testing import scripted_host, seen

PAGES = Path(__file__).parents[2] / "docs" / "extensions"
PLUGIN = "deerflow.testing.plugin"


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)


def _commands(page: str) -> list[str]:
    return [line for block in _blocks(page, "console") for line in block.splitlines()]


@pytest.fixture
def shell(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Run a line of a page where `python` and `deerflow` are those of a throw-away environment."""
    environment = throw_away(tmp_path, "pip")
    script = environment.python.with_name("deerflow")
    script.write_text(f"#!{environment.python} -P\nfrom deerflow.cli import main\nmain()\n")
    script.chmod(0o755)
    if not any(point.value == PLUGIN for point in entry_points(group="pytest11")):
        site = environment.python.parents[1] / "pytest_options"
        site.write_text(f"-p {PLUGIN}")
    return lambda line: _run(environment, line)


def _run(environment: ThrowAway, line: str) -> subprocess.CompletedProcess[str]:
    options = environment.python.parents[1] / "pytest_options"
    variables = {"PYTEST_ADDOPTS": options.read_text()} if options.exists() else {}
    code = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1], shell=True))"
    path = f"PATH={environment.python.parent}:$PATH; {line}"
    return environment.run("-c", code, path, **variables)


def test_an_author_gets_from_nothing_to_a_running_extension(
    shell: Callable[[str], subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    commands = _commands("authors.md")
    first = _blocks("authors.md", "console")[0].splitlines()
    assert (PAGES / "authors.md").read_text().splitlines()[2].startswith("Four commands") and len(first) == 4
    for line in commands:
        done = shell(line)
        assert done.returncode == 0, line + done.stdout + done.stderr
        if line.startswith("deerflow chat"):
            assert done.stdout.splitlines()[-1] == _blocks("authors.md", "text")[0].strip()
    tests = tmp_path / "work" / "test_of_the_page.py"
    tests.write_text("\n\n".join(_blocks("authors.md", "python")))
    done = shell("python -m pytest -q -W error -p no:cacheprovider test_of_the_page.py")
    assert "5 passed" in done.stdout, done.stdout + done.stderr


def test_an_operator_can_do_everything_that_the_page_says(
    shell: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    assert shell("deerflow extensions new acme-audit --kind lifecycle").returncode == 0
    for line in _commands("operators.md"):
        done = shell(line)
        assert done.returncode == 0, line + done.stdout + done.stderr


def test_every_name_of_the_table_exists() -> None:
    text = (PAGES / "authors.md").read_text()
    for name in re.findall(r"`([A-Z_]{4,})`", text):
        assert name in testing.__all__, name
    for attribute in re.findall(r"`host\.(\w+)", text):
        assert hasattr(scripted_host.ScriptedHost, attribute), attribute
    fields = {*seen.SeenRun.__dataclass_fields__, *vars(seen.SeenRun)}
    for attribute in re.findall(r"`run\.(\w+)", text):
        assert attribute in fields, attribute
