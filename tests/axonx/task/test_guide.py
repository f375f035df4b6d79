from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from axonx import Application
from axonx.components.registry import provider
from axonx.task import BaseTaskRunner
from axonx.task.cluster.dask_runner import DaskTaskRunner
from axonx.task.defaults import TASK_JOBS
from axonx.task.identity import TaskType
from axonx.task.runner import LocalTaskRunner

GUIDE = (Path(__file__).parents[3] / "docs" / "axonx" / "tasks.md").read_text()
FILES = {
    re.match(r"# (\S+\.py)\n", block).group(1): block  # type: ignore[union-attr]
    for block in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
}

CONFIGURATIONS = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)


@pytest.fixture
def guide(tmp_path: Path) -> Path:
    for name, code in FILES.items():
        (tmp_path / name).write_text(code)
    return tmp_path


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith(("exec", "submit", "source"))])
def test_the_scripts_of_the_guide_run(guide: Path, name: str):
    done = subprocess.run([sys.executable, name], cwd=guide, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")


def test_the_tests_of_the_guide_pass(guide: Path):
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        ".",
        "test_words.py",
    ]
    done = subprocess.run(command, cwd=guide, capture_output=True, text=True, timeout=60)

    assert "2 passed" in done.stdout, done.stdout


def test_the_guide_names_every_job_and_every_type():
    for name in TASK_JOBS:
        assert f"`{name}`" in GUIDE
    for task_type in TaskType:
        assert f"`{task_type}`" in GUIDE


def test_another_runner_is_a_component(tmp_path: Path):
    _, block = CONFIGURATIONS

    @provider("my_cluster")
    class ClusterRunner(LocalTaskRunner):
        pass

    app = Application(providers=(ClusterRunner,), workspace_dir=str(tmp_path), **yaml.safe_load(block))

    runner = app.context.component("task_manager").runner  # type: ignore[attr-defined]
    assert isinstance(runner, BaseTaskRunner) and type(runner) is ClusterRunner


def test_a_dask_cluster_is_a_component_with_these_options(tmp_path: Path):
    block, _ = CONFIGURATIONS

    app = Application(workspace_dir=str(tmp_path), **yaml.safe_load(block))

    assert type(app.context.component("task_runner", "cluster")) is DaskTaskRunner
    table = GUIDE.partition("## Workers in a Dask cluster")[2].partition("Scheduler and workers")[0]
    options = [*inspect.signature(DaskTaskRunner.__init__).parameters][1:-1]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == options
