"""The guides do what they say: their Python runs, their commands print what stands below them."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.pages import ROOT, Block, Shell, blocks_of, commands_of, differs

from deerflow.config import config_from
from deerflow.extensions import reset_loaded_extensions

# The pages about AxonX have tests of their own, and so has the contract's README.
PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/guides/*.md")),
    *sorted(ROOT.glob("docs/reference/*.md")),
]
_SECRETS = {
    "OPENAI_API_KEY": "sk-test",
    "ANTHROPIC_API_KEY": "sk-test",
    "DATABASE_PASSWORD": "secret",
    "REDIS_PASSWORD": "secret",
}


def pages_that_have(*languages: str) -> list[Path]:
    """The pages with a block in one of these languages."""
    return [page for page in PAGES if any(block.language in languages for block in blocks_of(page))]


def pages_with(*languages: str) -> pytest.MarkDecorator:
    """One test for each page that has a block in one of these languages."""
    return pytest.mark.parametrize("page", pages_that_have(*languages), ids=lambda page: page.stem)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A reader's working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("DEER_FLOW_CONFIG_PATH", raising=False)
    monkeypatch.delenv("DEER_FLOW_HOME", raising=False)
    yield tmp_path
    reset_loaded_extensions()


def write_files(blocks: list[Block], folder: Path) -> None:
    """The files that a page shows."""
    for block in blocks:
        if block.file_name is not None:
            file = folder / block.file_name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text)


def scripts_of(blocks: list[Block]) -> list[tuple[Block, str | None]]:
    """The Python blocks that are no files, each with the `text` block that follows it."""
    return [
        (block, after.text if after is not None and after.language == "text" else None)
        for block, after in zip_longest(blocks, blocks[1:])
        if block.language == "python" and block.file_name is None
    ]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the Python of each page prints, by the page's path; all in one process, which imports once."""
    jobs = []
    for page in pages_that_have("python"):
        folder = tmp_path_factory.mktemp(page.stem)
        blocks = blocks_of(page)
        write_files(blocks, folder)
        scripts = [block.text for block, _ in scripts_of(blocks)]
        jobs.append({"page": str(page), "folder": str(folder), "scripts": scripts})
    done = subprocess.run(
        [sys.executable, "-m", "support.page_runner"],
        cwd=ROOT / "tests",
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


@pages_with("python")
def test_the_python_of_a_page_prints_what_it_says(page: Path, outputs: dict[str, Any]) -> None:
    printed = outputs[str(page)]
    assert printed["error"] == ""
    for (block, expected), output in zip(scripts_of(blocks_of(page)), printed["outputs"], strict=True):
        if expected is not None:
            assert not differs(output, expected.splitlines()), f"{page.name}:{block.line} prints\n{output}"


@pages_with("console")
def test_the_commands_of_a_page_print_what_it_says(page: Path, folder: Path) -> None:
    shell = Shell()
    try:
        for block in blocks_of(page):
            write_files([block], folder)  # as a reader does, from top to bottom
            for command, expected in commands_of(block):
                wrong = differs(shell.run(command), expected)
                assert not wrong, f"{page.name}:{block.line} `{command}` prints\n{wrong}"
    finally:
        shell.close()


@pages_with("yaml", "json", "toml")
def test_the_settings_of_a_page_are_accepted(
    page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in _SECRETS.items():
        monkeypatch.setenv(name, value)
    for block in blocks_of(page):
        if block.language == "yaml" and not (block.file_name or "").startswith(("axonx", "broken")):
            config_from(yaml.safe_load(block.text))
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "toml":
            tomllib.loads(block.text)
    assert caplog.messages == []


def test_the_guide_shows_the_langgraph_file_of_the_repository() -> None:
    shown = [block.text for block in blocks_of(ROOT / "docs/guides/embedder.md") if block.language == "json"]
    assert [json.loads(text) for text in shown] == [json.loads((ROOT / "langgraph.json").read_text())]
