"""What the documents show is run or compared."""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


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
