"""Workers that do next to nothing: `python -m support.light_workers FOLDER KIND` starts two of them."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from pathlib import Path

from deerflow.config import AppConfig
from deerflow.gateway.process.workers import START_FAILED, Workers


def wait(config: AppConfig, listener: socket.socket) -> None:
    """Tell that this worker is there, wait for SIGTERM, and tell that it came."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    (config.home / f"{os.getpid()}.started").touch()
    while not over.wait(0.05):
        pass
    (config.home / f"{os.getpid()}.stopped").touch()


def refuse(config: AppConfig, listener: socket.socket) -> None:
    """Find that this worker cannot start, where another one is already there."""
    if any(config.home.glob("*.started")):
        sys.exit(START_FAILED)
    wait(config, listener)


def main(folder: str, kind: str) -> None:
    work = {"wait": wait, "refuse": refuse}[kind]
    config = AppConfig().based_in(Path(folder))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sys.exit(Workers(work, config, listener, 2).run())


if __name__ == "__main__":
    main(*sys.argv[1:])
