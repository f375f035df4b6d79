"""What the tests of the command line share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from axonx.cli.main import run


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str


Cli = Callable[..., Outcome]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run a command line in an empty directory, in this process."""
    monkeypatch.chdir(tmp_path)
    for name in ("AXONX_CONFIG", "AXONX_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str) -> Outcome:
        status = run(arguments)
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return call
