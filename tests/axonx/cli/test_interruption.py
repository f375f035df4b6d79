"""Commands that are ended by a signal clean up first."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from support.axonx_plugins import install

JOB = """
import asyncio
from pathlib import Path
from axonx import BaseJob

class Slow(BaseJob):
    async def stream(self, arguments, system):
        print("begun", flush=True)
        try:
            await asyncio.Event().wait()
            yield
        finally:
            Path("cleaned").touch()
"""
TASK = """
import time
from axonx.task import BaseTask

class Slow(BaseTask):
    def build_task_steps(self):
        yield self.wait

    def wait(self):
        print("begun", flush=True)
        time.sleep(60)

    def build_output_params(self): ...
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_interrupted_job_cleans_up(tmp_path: Path, number: signal.Signals, status: int) -> None:
    install(tmp_path / "site", "slow", "components: {job: {slow: '{package}.mod:Slow'}}", mod=JOB)
    (tmp_path / "axonx.yaml").write_text(yaml.safe_dump({"jobs": {"slow": {"backend": "slow"}}}))
    with begun(tmp_path, "run", "slow") as process:
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == status
    assert (tmp_path / "cleaned").exists()
    assert "Traceback" not in errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_task_is_recorded_as_cancelled(tmp_path: Path, number: signal.Signals) -> None:
    install(tmp_path / "site", "slow", "tasks: {slow: '{package}.mod:Slow'}", mod=TASK)
    with begun(tmp_path, "exec", "slow", "--task_name", "one") as process:
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.strip() == "Error: interrupted"
    record = json.loads((tmp_path / ".axonx" / "base" / "base#slow#one" / "metadata.json").read_text())
    assert (record["state"], record["exit_code"]) == ("cancelled", 130)


@contextmanager
def begun(directory: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process of the command that has said that its work began; killed if it is still there."""
    # Where the tests run in the background, SIGINT is ignored, and a child would inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [sys.executable, "-m", "axonx.cli", *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(directory / "site")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    signal.signal(signal.SIGINT, before)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield process
    finally:
        process.kill()
        process.communicate()
