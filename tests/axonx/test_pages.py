"""The pages about AxonX: their scripts run, their tables are those of the code."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from pydantic import BaseModel

from axonx import Application
from axonx.components.job import (
    AgentMessageEvent,
    ArtifactEvent,
    LogEvent,
    ProgressEvent,
    ResultEvent,
)
from axonx.scheduler.cron import CronScheduler
from axonx.service.http import HttpService

PAGES = Path(__file__).parents[2] / "docs" / "axonx"


def blocks(page: str, language: str) -> list[str]:
    text = (PAGES / page).read_text("utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def files(page: str) -> dict[str, str]:
    """The blocks of a page that begin with the name of a file, by that name."""
    found = {}
    for language in ("python", "yaml", "toml"):
        for block in blocks(page, language):
            named = re.match(r"# (\S+\.\w+)\n", block)
            assert named, block
            found[named[1]] = block
    return found


def table_after(page: str, heading: str) -> dict[str, list[str]]:
    """The rows of the first table after a heading, by each of the names in their first cell."""
    text = re.split(r"\n##+ ", (PAGES / page).read_text("utf-8").split(f"\n{heading}\n")[1])[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")][2:]
    return {
        name: [cell.strip() for cell in row[1:]] for row in rows for name in re.findall(r"`(\w+)`", row[0])
    }


def python(directory: Path, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("page", "script", "output"),
    [("events.md", "watch.py", 0), ("extensions.md", "notes.py", 0), ("extensions.md", "two_services.py", 1)],
)
def test_the_scripts_print_what_the_page_says(tmp_path: Path, page: str, script: str, output: int) -> None:
    (tmp_path / script).write_text(files(page)[script])
    assert python(tmp_path, script) == blocks(page, "text")[output]


@pytest.mark.parametrize("kind", [ProgressEvent, LogEvent, ArtifactEvent, AgentMessageEvent, ResultEvent])
def test_the_tables_of_events_are_the_models(kind: type[BaseModel]) -> None:
    fields = {name: field for name, field in kind.model_fields.items() if name != "kind"}
    table = table_after("events.md", f"### {kind.model_fields['kind'].default}")
    assert set(table) == set(fields)
    for name, field in fields.items():
        default = (
            "required"
            if field.is_required()
            else f"`{json.dumps(field.get_default(call_default_factory=True))}`"
        )
        assert table[name][0] == default, name


@pytest.mark.parametrize(
    ("heading", "cls"), [("## Schedules", CronScheduler), ("## The HTTP service", HttpService)]
)
def test_the_tables_of_options_are_the_constructors(heading: str, cls: type) -> None:
    parameters = {
        name: parameter
        for klass in cls.__mro__
        for name, parameter in inspect.signature(klass.__init__).parameters.items()  # type: ignore[misc]
        if parameter.kind is parameter.KEYWORD_ONLY and name not in ("name", "backend", "app_context")
    }
    table = table_after("extensions.md", heading)
    assert set(table) == set(parameters)
    for name, parameter in parameters.items():
        default = table[name][0]
        if default.startswith("`") and default not in ("`{}`", '`""`'):
            assert default == f"`{parameter.default}`", name
        elif default == "required":
            assert parameter.default is parameter.empty


def test_the_schedule_of_the_page_is_accepted(tmp_path: Path) -> None:
    app = Application(workspace_dir=tmp_path, **yaml.safe_load(files("extensions.md")["schedules.yaml"]))
    assert list(app.context.schedulers) == ["nightly"]


async def test_the_service_of_the_page_is_served(tmp_path: Path) -> None:
    config = yaml.safe_load(files("extensions.md")["service.yaml"])
    async with Application(workspace_dir=tmp_path, **config) as app:
        assert isinstance(app.context.service, HttpService)
        async with httpx.AsyncClient(
            base_url=app.context.service.address, trust_env=False, timeout=60
        ) as http:
            response = await http.post("/jobs/greet", json={})
            paths = (await http.get("/openapi.json")).json()["paths"]
    assert response.json()["answer"] == "Hello, AxonX!"
    page = (PAGES / "extensions.md").read_text("utf-8")
    for path, methods in paths.items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in page


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """The plugin of the page, as it lies in its project."""
    for name, content in files("plugins.md").items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    (tmp_path / "src" / "greeting_plugin" / "__init__.py").touch()
    return tmp_path


def test_the_plugin_of_the_page_does_what_its_console_shows(plugin: Path) -> None:
    info = plugin / "src" / "greeting_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greeting-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[axonx.plugins]\ngreetings = greeting_plugin\n")
    (console,) = blocks("plugins.md", "console")
    expected = re.findall(r"\$ axonx (.*)\n(.*)\n", console)
    assert len(expected) == 2
    for command, output in expected:
        printed = python(plugin, "-m", "axonx.cli", *command.split(), PYTHONPATH=str(plugin / "src"))
        assert output in printed.splitlines()


async def test_the_plugin_of_the_page_is_used_from_its_source(
    plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(plugin)
    monkeypatch.setattr(sys, "path", list(sys.path))
    config: dict[str, Any] = {
        **yaml.safe_load((plugin / "with_source.yaml").read_text()),
        **yaml.safe_load((plugin / "axonx.yaml").read_text()),
    }
    async with Application(workspace_dir=plugin / "workspace", **config) as app:
        assert app.context.component("phrasebook").greeting() == "Hallo"  # type: ignore[attr-defined]
        assert (await app.run_job("greet_plugin", {"name": "x"})).answer == "Hello, x!"
        assert "count_greetings" in app.context.registry.backends("task")
