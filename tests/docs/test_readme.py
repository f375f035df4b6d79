"""What the documents show is run or compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("number", [0, 1])
def test_python_of_the_readme_runs(tmp_path: Path, number: int) -> None:
    snippet = _FENCE.findall((ROOT / "README.md").read_text())[number]
    done = subprocess.run(
        [sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    if number == 0:
        assert done.stdout.splitlines()[0] == "You said: Hello"
        assert done.stdout.splitlines()[-1] == "end"


def test_every_make_target_that_the_documents_name_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z]+)", (ROOT / "README.md").read_text()))
    assert named <= targets


def test_every_file_that_the_architecture_names_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = set(re.findall(r"`((?:deerflow|runs|agents|extensions|axonx)/[\w/]+\.py)`", text))
    assert named
    for name in named:
        path = name if name.startswith(("deerflow/", "axonx/")) else f"deerflow/{name}"
        assert (ROOT / path).is_file(), name


def test_no_document_names_this_machine() -> None:
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        assert os.environ.get("HOME", "/nowhere") + "/" not in path.read_text(), path
