"""The site builds, and its generated parts say what the code says."""

from __future__ import annotations

import ast
import importlib.util
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from types import ModuleType

import pytest
from support.pages import ROOT

from deerflow.config import AppConfig
from deerflow.gateway.metrics import Metrics

GENERATORS = ROOT / "docs" / "_site"
_VALUE = "…"


def generator(name: str) -> ModuleType:
    """A module of `docs/_site`, which is no package."""
    spec = importlib.util.spec_from_file_location(f"site_{name}", GENERATORS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_configuration_key_has_a_meaning() -> None:
    tables = generator("configuration").tables()
    assert [table.key for table in tables] == list(AppConfig.model_fields)
    unexplained = [row.path for table in tables for row in table.rows if not row.meaning]
    assert unexplained == [], "write a comment beside these keys in config.example.yaml"


def test_a_row_says_what_is_allowed_and_the_default() -> None:
    rows = {row.path: row for table in generator("configuration").tables() for row in table.rows}
    backend = rows["database.backend"]
    assert (backend.allowed, backend.default) == ("`memory`, `sqlite` or `postgres`", '`"sqlite"`')
    assert rows["plugins[].use"].default == "required"
    assert rows["subagents.agents.NAME.tools"].allowed == "a list of text, or `null`"
    assert rows["mcp.servers.NAME.url"].meaning == "http: where it is"


def literals() -> Iterator[str]:
    """Every text of the host's source, values in it replaced."""
    for path in (ROOT / "deerflow").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.sub(r"%(?:\.\d+)?[sdrgf]", _VALUE, node.value).removeprefix(f"Extension {_VALUE}: ")
            elif isinstance(node, ast.JoinedStr):
                yield "".join(
                    str(part.value) if isinstance(part, ast.Constant) else _VALUE for part in node.values
                )


def test_every_explained_line_is_one_that_the_host_writes() -> None:
    page = (ROOT / "docs/reference/log.md").read_text("utf-8")
    explained = re.findall(r"^\| `(.+?)` ", page, re.MULTILINE)
    assert len(explained) > 30
    written = set(literals())
    invented = [line for line in explained if line not in written]
    assert invented == [], "docs/reference/log.md explains what nobody writes"


def test_every_metric_is_explained() -> None:
    page = (ROOT / "docs/guides/operator.md").read_text("utf-8")
    explained = re.findall(r"^\| `(deerflow_\w+)` \|", page, re.MULTILINE)
    told = re.findall(r"^# TYPE (\w+) ", Metrics().exposition().decode(), re.MULTILINE)
    assert explained == [name for name in told if not name.endswith("_created")]


def test_every_command_is_described() -> None:
    text = generator("commands").markdown()
    for command in (
        "deerflow serve",
        "deerflow extensions install",
        "deerflow users add",
        "axonx tasks logs",
    ):
        assert f"\n## {command}\n" in text


def test_every_route_has_a_description() -> None:
    rows = re.findall(r"^\| `(.+?)` \| (.*) \|$", generator("routes").markdown(), re.MULTILINE)
    assert ("POST /threads/{thread_id}/runs/stream", "Start a run and send its events as they come.") in rows
    assert [route for route, about in rows if not about] == []


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """What `make docs` does, in another folder."""
    config = (ROOT / "zensical.toml").read_text("utf-8")
    config = config.replace('"build/docs"', '"pages"').replace(
        'paths = [".", "extension_api"]', f'paths = ["{ROOT}", "{ROOT / "extension_api"}"]'
    )
    (tmp_path / "zensical.toml").write_text(config)
    write_pages = runpy.run_path(str(GENERATORS), run_name="pages")["main"]
    write_pages(tmp_path / "pages")
    done = subprocess.run(
        [str(Path(sys.executable).with_name("zensical")), "build", "--strict", "--clean"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "deerflow_extension_api.Placement" in (tmp_path / "site/reference/contract.html").read_text(
        "utf-8"
    )


def test_links_lead_to_pages_and_files_of_the_repository() -> None:
    links = generator("repository_links")
    source, place = PurePosixPath("docs/guides/operator.md"), PurePosixPath("guides/operator.md")
    places = {"README.md": "index.md", "docs/reference/log.md": "reference/log.md"}

    def shown(text: str) -> str:
        return str(links.with_site_links(text, source, place, places))

    assert shown("[log](../reference/log.md#a)") == "[log](../reference/log.md#a)"
    assert shown("[start](../../README.md)") == "[start](../index.md)"
    assert shown("[example](../../config.example.yaml)") == "`config.example.yaml`"
    assert shown("```\n[x](nowhere.md)\n```") == "```\n[x](nowhere.md)\n```"
    with pytest.raises(links.BrokenLinkError, match=r"docs/guides/operator.md: nowhere.md"):
        shown("[x](nowhere.md)")
