"""The types, as mypy sees them from outside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "extension_api" / "deerflow_extension_api"


@pytest.fixture(scope="module")
def mypy_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy")


def check_strictly(target: Path, cache: Path) -> str:
    """Run mypy away from this project's configuration and return what it reports."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        f"--cache-dir={cache}",
        str(target),
    ]
    done = subprocess.run(command, cwd=cache, capture_output=True, text=True, timeout=250, check=False)
    return done.stdout + done.stderr


def test_the_package_passes_strict_checks(mypy_cache: Path) -> None:
    assert "Success: no issues found" in check_strictly(PACKAGE, mypy_cache)


def test_an_extension_written_from_the_contract_passes_and_its_mistakes_are_caught(mypy_cache: Path) -> None:
    assert "Success: no issues found" in check_strictly(HERE / "typed_consumer.py", mypy_cache)


def test_the_package_says_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()
