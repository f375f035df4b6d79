"""A configuration is tried out in a process of its own before it counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from deerflow.config.load import PATH_VARIABLE
from deerflow.kit.errors import KitError

TRIAL_SECONDS: Final = 120
_COMMAND: Final = "import sys; from deerflow.cli import main; main(sys.argv[1:])"


def try_out(config_text: str, index: int) -> list[str]:
    """Return the errors of the record at `index`, were the host started on this configuration.

    A fresh interpreter loads it, so that it sees what was just installed; one that hangs is ended. What is
    wrong with other records does not matter.
    """
    with tempfile.TemporaryDirectory(prefix="deerflow-") as folder:
        file = Path(folder, "config.yaml")
        file.write_text(config_text, encoding="utf-8", newline="")
        arguments = ["extensions", "check", "--json", "--config", str(file)]
        environment = {name: value for name, value in os.environ.items() if name != PATH_VARIABLE}
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-c", _COMMAND, *arguments],
                cwd=folder,
                env={**environment, "DEER_FLOW_HOME": str(Path(folder, "state"))},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=TRIAL_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return [f"loading it did not end within {TRIAL_SECONDS} s"]
    return _errors(done.stdout, done.stderr, index)


def _errors(output: str, complaints: str, index: int) -> list[str]:
    for line in reversed(output.splitlines()):  # an extension may print as well
        try:
            report: Any = json.loads(line)
            (entry,) = (entry for entry in report["entries"] if entry["index"] == index)
        except (ValueError, LookupError, TypeError):
            continue
        return [finding["text"] for finding in entry["findings"] if finding["level"] == "error"]
    reason = (complaints.strip().splitlines() or ["it ended without a word"])[-1]
    raise KitError(f"the extension could not be tried out: {reason}")
