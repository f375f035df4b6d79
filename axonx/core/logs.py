"""The loggers of one Application: standard `logging`, nothing of the process changed.

Records go to the application's own handlers, if it has any, and on to the process's `axonx` logger,
so that a host sees them with whatever it has configured.
"""

from __future__ import annotations

import logging
import logging.handlers
import queue
import re
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

from axonx.config import ApplicationConfig

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_LOG_FILE_BYTES = 10 * 1024 * 1024
_LOG_FILES_KEPT = 5
_MOST_QUEUED_LINES = 10_000


class _OwnLogger(logging.Logger):
    """A logger outside of the process-wide table, so that no other Application can reach it."""

    def __init__(self, name: str, parent: logging.Logger) -> None:
        super().__init__(name)
        self.parent = parent

    def isEnabledFor(self, level: int) -> bool:
        # The base class caches the answer and only forgets it for loggers in the process-wide table.
        return self.manager.disable < level and level >= self.getEffectiveLevel()


class _ZonedFormatter(logging.Formatter):
    def __init__(self, timezone: ZoneInfo) -> None:
        super().__init__(_FORMAT)
        self._timezone = timezone

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        moment = datetime.fromtimestamp(record.created, self._timezone)
        return moment.strftime(datefmt) if datefmt else moment.isoformat(timespec="milliseconds")


class _QueueHandler(logging.handlers.QueueHandler):
    """Hands records to the writing thread; when that cannot keep up, drops and counts them."""

    dropped = 0

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1


class _QueueListener(logging.handlers.QueueListener):
    def enqueue_sentinel(self) -> None:
        # A full queue is waited for, so that the thread always ends.
        cast("queue.Queue[Any]", self.queue).put(None)


class ApplicationLogs:
    """Loggers by name, and the handlers that exist from `open` to `close`.

    Files and console are written by a thread of their own, never by the event loop.
    """

    def __init__(self, config: ApplicationConfig) -> None:
        self._config = config
        self.root = _OwnLogger(f"axonx.{config.app_name}", logging.getLogger("axonx"))
        self._loggers: dict[str, logging.Logger] = {}
        self._listener: _QueueListener | None = None

    def logger_for(self, name: str) -> logging.Logger:
        """The logger `axonx.<application>.<name>`."""
        logger = self._loggers.get(name)
        if logger is None:
            logger = self._loggers[name] = _OwnLogger(f"{self.root.name}.{name}", self.root)
        return logger

    @property
    def is_open(self) -> bool:
        return self._listener is not None

    def open(self) -> None:
        """Create the console and file handlers that are configured; blocks, and makes the log directory."""
        handlers = self._handlers()
        if self.is_open or not handlers:
            return
        lines: queue.Queue[Any] = queue.Queue(_MOST_QUEUED_LINES)
        self._listener = _QueueListener(lines, *handlers)
        self.root.addHandler(_QueueHandler(lines))
        self.root.setLevel(logging.INFO)
        self._listener.start()

    def close(self) -> None:
        """Write what is queued and close the handlers; blocks."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        for handler in list(self.root.handlers):
            dropped = getattr(handler, "dropped", 0)
            if dropped:
                self.root.warning(
                    "%d log lines were dropped: they came faster than they were written", dropped
                )
            self.root.removeHandler(handler)
        self.root.setLevel(logging.NOTSET)
        listener.stop()
        for target in listener.handlers:
            target.close()

    def _handlers(self) -> list[logging.Handler]:
        handlers: list[logging.Handler] = []
        if self._config.log_to_console:
            handlers.append(logging.StreamHandler(sys.stderr))
        if self._config.log_to_file:
            directory = Path(self._config.log_dir)
            directory.mkdir(parents=True, exist_ok=True)
            name = re.sub(r"[^\w.-]+", "-", self._config.app_name).lower()
            path = directory / f"{name}.log"
            handlers.append(
                logging.handlers.RotatingFileHandler(path, "a", _LOG_FILE_BYTES, _LOG_FILES_KEPT, "utf-8")
            )
        for handler in handlers:
            handler.setFormatter(_ZonedFormatter(ZoneInfo(self._config.timezone)))
        return handlers
