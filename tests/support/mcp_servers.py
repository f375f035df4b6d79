"""Start the MCP test server, and say how it is configured."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from support.ports import free_port

PROGRAM = str(Path(__file__).with_name("mcp_server.py"))


def stdio(**fields: Any) -> dict[str, Any]:
    """A server that the host starts."""
    return {"transport": "stdio", "command": sys.executable, "args": [PROGRAM, "stdio"], **fields}


@dataclass
class HttpServer:
    """A server that the test starts, and may start again on the same port."""

    port: int
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def config(self, **fields: Any) -> dict[str, Any]:
        return {"transport": "http", "url": f"http://127.0.0.1:{self.port}/mcp", **fields}

    def start(self) -> None:
        command = [sys.executable, PROGRAM, "http", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _wait_for(self.port)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def http_server(port: int | None = None) -> Iterator[HttpServer]:
    """A running server, on `port` or any other one."""
    server = HttpServer(port or free_port())
    try:
        yield server
    finally:
        server.stop()


def _wait_for(port: int) -> None:
    limit = monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if monotonic() > limit:
                raise
            sleep(0.02)
        else:
            return
