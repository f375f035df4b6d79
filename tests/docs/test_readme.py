"""What the documents show is run or compared."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from click import Context

from deerflow.cli.main import cli as deerflow

ROOT = Path(__file__).resolve().parents[2]


def test_every_make_target_that_the_documents_name_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z]+)", (ROOT / "README.md").read_text()))
    assert named <= targets


def test_everything_that_the_architecture_names_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    packages = "|".join(path.name for path in (ROOT / "deerflow").iterdir() if path.is_dir())
    named = set(re.findall(rf"`((?:deerflow|axonx|docs|{packages})/[\w./]+)`", text))
    assert len(named) > 40
    places = {
        name if name.split("/")[0] in ("deerflow", "axonx", "docs") else f"deerflow/{name}" for name in named
    }
    assert sorted(place for place in places if not (ROOT / place).exists()) == []


def test_no_document_names_this_machine() -> None:
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        assert os.environ.get("HOME", "/nowhere") + "/" not in path.read_text(), path


def test_every_command_of_the_readme_is_there() -> None:
    text = (ROOT / "README.md").read_text()
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    commands = [shlex.split(line, comments=True) for line in lines]
    assert len(commands) > 5
    for program, *arguments in commands:
        assert program in ("make", "pip", "deerflow", "langgraph", "python")
        if program == "deerflow":
            assert deerflow.get_command(Context(deerflow), arguments[0]) is not None
        if program == "pip":
            folders = [argument.partition("[")[0] for argument in arguments[1:]]
            assert all((ROOT / folder / "pyproject.toml").is_file() for folder in folders)
