"""The loggers of one Application: standard `logging`, nothing of the process changed.

Records go to the application's own handlers, if it has any, and on to the process's `axonx` logger,
so that a host sees them with whatever it has configured.
"""

from __future__ import annotations

import logging
import re
import sys
from datetime import datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from zoneinfo import ZoneInfo

from axonx.config import ApplicationConfig

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_LOG_FILE_BYTES = 10 * 1024 * 1024
_LOG_FILES_KEPT = 5


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


class ApplicationLogs:
    """Loggers by name, and the handlers that exist from `open` to `close`."""

    def __init__(self, config: ApplicationConfig) -> None:
        self._config = config
        self.root = _OwnLogger(f"axonx.{config.app_name}", logging.getLogger("axonx"))
        self._loggers: dict[str, logging.Logger] = {}

    def logger_for(self, name: str) -> logging.Logger:
        """The logger `axonx.<application>.<name>`."""
        logger = self._loggers.get(name)
        if logger is None:
            logger = self._loggers[name] = _OwnLogger(f"{self.root.name}.{name}", self.root)
        return logger

    def open(self) -> None:
        """Create the console and file handlers that are configured; makes the log directory."""
        if self.root.handlers:
            return
        if self._config.log_to_console:
            self._add(logging.StreamHandler(sys.stderr))
        if self._config.log_to_file:
            directory = Path(self._config.log_dir)
            directory.mkdir(parents=True, exist_ok=True)
            name = re.sub(r"[^\w.-]+", "-", self._config.app_name).lower()
            path = directory / f"{name}.log"
            self._add(RotatingFileHandler(path, "a", _LOG_FILE_BYTES, _LOG_FILES_KEPT, "utf-8"))

    def close(self) -> None:
        """Remove and close the handlers."""
        for handler in list(self.root.handlers):
            self.root.removeHandler(handler)
            handler.close()
        self.root.setLevel(logging.NOTSET)

    def _add(self, handler: logging.Handler) -> None:
        handler.setFormatter(_ZonedFormatter(ZoneInfo(self._config.timezone)))
        self.root.addHandler(handler)
        self.root.setLevel(logging.INFO)
