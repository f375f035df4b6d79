"""A real Gateway process, as `deerflow serve` starts it."""

from __future__ import annotations

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

_SERVE = (str(Path(sys.executable).with_name("deerflow")), "serve")


class GatewayProcess:
    """The running Gateway; `log` is what it printed so far."""

    def __init__(self, url: str, process: subprocess.Popen[bytes], log_path: Path) -> None:
        self.url = url
        self.process = process
        self._log_path = log_path

    @property
    def log(self) -> str:
        return self._log_path.read_text(errors="replace")

    def terminate(self) -> int:
        """Send SIGTERM and wait for the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def gateway_process(
    folder: Path,
    config: dict[str, Any],
    *,
    environment: dict[str, str] | None = None,
    port: int | None = None,
    workers: int = 1,
) -> Iterator[GatewayProcess]:
    """Serve `config` from `folder` on `port`, or a free one, of loopback."""
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    port = port or free_port()
    log_path = folder / "gateway.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [*_SERVE, "--port", str(port), "--workers", str(workers)],
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        gateway = GatewayProcess(f"http://127.0.0.1:{port}", process, log_path)
        try:
            _wait_until_up(gateway)
            yield gateway
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _wait_until_up(gateway: GatewayProcess, timeout_seconds: float = 120.0) -> None:
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline and gateway.process.poll() is None:
        try:
            if httpx.get(f"{gateway.url}/ok", timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise RuntimeError(f"the Gateway did not come up:\n{gateway.log}")
