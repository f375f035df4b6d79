"""Plugins that are used from their source trees."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from support.axonx_plugins import COMPONENT, TASK, install

from axonx import Application
from axonx.plugins.errors import PluginSourceError
from axonx.task.defaults import TASK_COMPONENTS, TASK_JOBS


def source(directory: Path, name: str, manifest: str, *, layout: str = "src", **modules: str) -> str:
    """Write a project and return its package."""
    root = directory / layout
    package = install(root, name, manifest, **modules)
    for path in root.glob("*.dist-info/*"):
        path.unlink()
    (directory / "pyproject.toml").write_text(
        f'[project]\nname = "{name}"\nversion = "3"\n'
        f'[project.entry-points."axonx.plugins"]\nmain = "{package}"\n'
    )
    return package


def app(tmp_path: Path, *sources: Path, **config: Any) -> Application:
    return Application(
        workspace_dir=tmp_path / "workspace", plugins={"sources": [str(path) for path in sources]}, **config
    )


@pytest.mark.parametrize("layout", ["src", "."])
def test_a_source_tree_is_a_plugin_without_being_installed(site: Path, tmp_path: Path, layout: str) -> None:
    project = site / "project"
    manifest = "components: {formatter: {pf: '{package}.fmt:Fmt'}}"
    source(project, "ps", manifest, layout=layout, fmt=COMPONENT)
    components = {"formatter": {"default": {"backend": "pf"}}}
    composed = app(tmp_path, project, components=components)
    assert type(composed.context.component("formatter")).__name__ == "Fmt"
    registration = composed.context.registry.find("formatter", "pf")
    assert registration is not None
    assert registration.owner == "ps"
    assert sys.path[-1] == os.path.normpath(project / layout)
    with pytest.raises(ValueError, match="Unknown formatter backend"):
        app(tmp_path, components=components)


async def test_a_task_of_a_source_tree_runs_in_a_worker(site: Path, tmp_path: Path) -> None:
    source(site / "project", "ps", "tasks: {mine: '{package}.mod:Job'}", mod=TASK)
    async with app(tmp_path, site / "project", components=TASK_COMPONENTS, jobs=TASK_JOBS) as running:
        handle = (await running.run_job("submit", {"task": "mine"})).answer
        arguments = {"task_id": handle["task_id"], "run_id": handle["run_id"], "poll_interval": 0.1}
        assert (await running.run_job("wait_task", arguments)).success


def test_a_source_that_cannot_be_used_stops_the_application_that_names_it(site: Path, tmp_path: Path) -> None:
    project = site / "project"
    with pytest.raises(PluginSourceError, match=r"plugins.sources.0 \(.*\): pyproject.toml cannot be read"):
        app(tmp_path, project)
    source(project, "ps", "nonsense: 1")
    with pytest.raises(ValueError, match="nonsense: Extra inputs"):
        app(tmp_path, project)
    (project / "pyproject.toml").write_text("[project]\nname = 'x'\nentry-points = 3\n")
    with pytest.raises(PluginSourceError, match=r"needs project.name and an entry under"):
        app(tmp_path, project)
    (project / "pyproject.toml").write_text("[project\n")
    with pytest.raises(PluginSourceError, match="is not valid"):
        app(tmp_path, project)


def test_a_plugin_is_not_both_installed_and_a_source(site: Path, tmp_path: Path) -> None:
    source(site / "project", "ps", "{}")
    install(site, "PS", "{}")
    with pytest.raises(PluginSourceError, match="plugin 'PS' is installed too"):
        app(tmp_path, site / "project")


def test_an_editable_installation_of_the_source_is_no_conflict(site: Path, tmp_path: Path) -> None:
    package = source(site / "project", "ps", "jobs: {j: {}}")
    sys.path.append(str(site / "project" / "src"))
    info = site / "ps-3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ps\nVersion: 3\n")
    (info / "entry_points.txt").write_text(f"[axonx.plugins]\nmain = {package}\n")
    assert list(app(tmp_path, site / "project").context.jobs) == ["j"]
