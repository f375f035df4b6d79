"""The examples, installed from their folders as their users would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

_PIP = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]


def install_example(name: str, target: Path) -> None:
    """Install the distribution in a folder of `examples` into the folder `target`."""
    done = subprocess.run(
        [*_PIP, "--disable-pip-version-check", "--target", str(target), str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
