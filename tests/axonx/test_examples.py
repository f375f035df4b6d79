"""The examples run as they stand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples" / "axonx"


def run(name: str, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True)


def test_format_text_prints_the_response_and_leaves_nothing(tmp_path: Path) -> None:
    done = run("format_text.py", tmp_path)
    assert done.stdout == "{'answer': 'AxonX: hello', 'success': True, 'metadata': {}}\n"
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_report_cache_runs_a_job_from_yaml_and_its_dependency(tmp_path: Path) -> None:
    done = run("report_cache.py", tmp_path, "text")
    assert done.stdout.splitlines() == [
        "progress {'name': 'formatted', 'percentage': 100.0}",
        "result {'answer': 'AxonX: text', 'metadata': {'mode': 'simple'}}",
    ]
    assert "AxonX: cache ready" in done.stderr
