"""A real `langgraph dev` process on a free port, in a folder of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
_QUIET = {
    "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    "LANGGRAPH_NO_VERSION_CHECK": "true",
    "LANGSMITH_TRACING": "false",
}


class DevProcess:
    """The running server; `log` is what it printed so far."""

    def __init__(self, url: str, process: subprocess.Popen[bytes], log_path: Path) -> None:
        self.url = url
        self.process = process
        self._log_path = log_path

    @property
    def log(self) -> str:
        return self._log_path.read_text(errors="replace")


@contextmanager
def langgraph_dev(
    folder: Path,
    config: dict[str, Any],
    *,
    graph: str | None = None,
    environment: dict[str, str] | None = None,
) -> Iterator[DevProcess]:
    """Serve the repository's `langgraph.json` (or another graph) with `config` as its `config.yaml`."""
    description = json.loads((ROOT / "langgraph.json").read_text())
    description["dependencies"] = [str(ROOT)]
    if graph is not None:
        description = {"dependencies": [str(ROOT)], "graphs": {"lead_agent": graph}}
    (folder / "langgraph.json").write_text(json.dumps(description))
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    port = free_port()
    command = [str(Path(sys.executable).with_name("langgraph")), "dev", "--no-browser", "--no-reload"]
    log_path = folder / "server.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port), "--n-jobs-per-worker", "4"],
            cwd=folder,
            env={**os.environ, **_QUIET, **(environment or {})},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        server = DevProcess(f"http://127.0.0.1:{port}", process, log_path)
        try:
            _wait_until_up(server)
            yield server
        finally:
            _end(process)


def _wait_until_up(server: DevProcess, timeout_seconds: float = 120.0) -> None:
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            raise RuntimeError(f"langgraph dev ended:\n{server.log}")
        try:
            if httpx.get(f"{server.url}/ok", timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise RuntimeError(f"langgraph dev did not answer:\n{server.log}")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
