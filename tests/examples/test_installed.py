"""Each example is installed, and its own tests pass with what was installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.examples import EXAMPLES, install_example

WITH_TESTS = sorted({file.parents[1].name for file in EXAMPLES.glob("*/tests/test_*.py")})


@pytest.mark.parametrize("name", WITH_TESTS)
def test_the_tests_of_an_example_pass_where_it_is_installed(tmp_path: Path, name: str) -> None:
    site, project = tmp_path / "site", tmp_path / "project"
    install_example(name, site)
    project.mkdir()
    shutil.copytree(
        EXAMPLES / name / "tests", project / "tests", ignore=shutil.ignore_patterns("__pycache__")
    )
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(EXAMPLES / name / file, project)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(project)],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(site), "DEER_FLOW_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b\d+ passed", done.stdout)


@pytest.mark.parametrize("name", WITH_TESTS)
def test_an_example_declares_what_it_imports(name: str) -> None:
    project = tomllib.loads((EXAMPLES / name / "pyproject.toml").read_text())["project"]
    declared = {re.split(r"[<>=\[ ]", line)[0].replace("-", "_") for line in project["dependencies"]}
    imported = set()
    for path in (EXAMPLES / name / name).rglob("*.py"):
        imported |= set(re.findall(r"^(?:from|import) (\w+)", path.read_text(), re.MULTILINE))
    foreign = imported - set(sys.stdlib_module_names) - {name}
    distributions = {"axonx": "deerflow", "langchain_core": "langchain", "yaml": "pyyaml"}
    assert {distributions.get(module, module) for module in foreign} == declared
