"""Several processes behind one address: each a whole Gateway, with services and extensions of its own."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Final

from deerflow.config import AppConfig
from deerflow.errors import ConfigError

logger = logging.getLogger(__name__)

START_FAILED: Final = 3
"""Exit status of a worker that cannot start: no other would fare better. uvicorn has the same."""

LOOK_SECONDS: Final = 0.2
SHORTEST_LIFE_SECONDS: Final = 1.0
"""A worker that lived shorter is replaced only once this time is over."""

ENDING_SECONDS: Final = 180.0
"""What a worker may take for its end beyond `shutdown.drain_seconds`: each step has a limit of its own."""

# Not forked: threads and open connections of this process would be half there.
_processes = multiprocessing.get_context("spawn")

Work = Callable[[AppConfig, socket.socket], None]


def check_workers(config: AppConfig, count: int) -> None:
    """Refuse, with `ConfigError`, more than one worker where they could not share runs."""
    if count == 1:
        return
    backend = config.database.backend
    reasons = {"memory": "is known to one process only", "sqlite": "lets one process write at a time"}
    if backend in reasons:
        raise ConfigError(
            f"database.backend: {backend!r} {reasons[backend]}, and {count} workers share all they know; "
            "set postgres, or serve with one worker"
        )
    if config.stream.backend == "memory":
        raise ConfigError(
            "stream.backend: 'memory' shows the events of a run to the process that has it only, and with "
            f"{count} workers clients come to any; set redis, or serve with one worker"
        )


class Workers:
    """`count` processes that do `work` on one listening socket, for as long as this one lives."""

    def __init__(self, work: Work, config: AppConfig, listener: socket.socket, count: int) -> None:
        self._work = work
        self._config = config
        self._listener = listener
        self._count = count
        self._living: dict[BaseProcess, float] = {}
        self._stopping = threading.Event()

    def run(self) -> int:
        """Work until SIGTERM or SIGINT, replacing workers that die; the exit status of this process."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stopping.set())
        status = 0
        for _ in range(self._count):
            self._start()
        while status == 0 and not self._stopping.wait(LOOK_SECONDS):
            status = self._replace_the_dead()
        self._stop_all()
        return status

    def _start(self) -> None:
        process = _processes.Process(target=_live, args=(self._work, self._config, self._listener))
        process.start()
        self._living[process] = time.monotonic()

    def _replace_the_dead(self) -> int:
        """Not 0 where a worker could not start."""
        for process, began in list(self._living.items()):
            if process.is_alive() or time.monotonic() - began < SHORTEST_LIFE_SECONDS:
                continue
            del self._living[process]
            if process.exitcode == START_FAILED:
                logger.error("worker %s could not start: the others end, too", process.pid)
                return 1
            logger.error("worker %s died with status %s and is replaced", process.pid, process.exitcode)
            self._start()
        return 0

    def _stop_all(self) -> None:
        """Each worker drains its own runs, all at the same time; nobody is left to take new connections."""
        self._listener.close()
        for process in self._living:
            process.terminate()
        over_at_seconds = time.monotonic() + self._config.shutdown.drain_seconds + ENDING_SECONDS
        for process in self._living:
            process.join(max(0.0, over_at_seconds - time.monotonic()))
            if process.is_alive():
                logger.error("worker %s does not end and is killed", process.pid)
                process.kill()
                process.join()


def _live(work: Work, config: AppConfig, listener: socket.socket) -> None:
    """What a worker does."""
    threading.Thread(target=_end_with_parent, name="watch of the parent", daemon=True).start()
    work(config, listener)


def _end_with_parent() -> None:
    """End like on SIGTERM when the process that started this one is gone, whatever it died of."""
    parent = multiprocessing.parent_process()
    if parent is None:
        sys.exit("only workers have a parent")
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
