"""Problems that belong to one extension: said in the log, and kept for the operator."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Any, Final, Literal

logger = logging.getLogger("deerflow.extensions")

KEPT_DIAGNOSTICS: Final = 1000
SLOW_CALL_SECONDS = 1.0

Level = Literal["warning", "error"]
_LOG_LEVELS: Final = {"warning": logging.WARNING, "error": logging.ERROR}


@dataclass(frozen=True)
class Diagnostic:
    """One problem; `source` is the entry point (`module.path:attribute`) of the extension it belongs to."""

    level: Level
    source: str
    message: str


class DiagnosticLog(list[Diagnostic]):
    """A live list of the newest 1000 diagnostics, oldest first. Any thread may append."""

    def __init__(self, diagnostics: Iterable[Diagnostic] = ()) -> None:
        super().__init__(diagnostics)
        self._lock = Lock()

    def append(self, diagnostic: Diagnostic) -> None:
        """Add one, dropping the oldest where there is no room."""
        with self._lock:
            super().append(diagnostic)
            del self[:-KEPT_DIAGNOSTICS]


def report(
    diagnostics: list[Diagnostic],
    level: Level,
    source: str,
    message: str,
    *,
    error: BaseException | None = None,
) -> None:
    """Write `Extension <source>: <message>` to the log, with the traceback of `error`, and collect it."""
    logger.log(_LOG_LEVELS[level], "Extension %s: %s", source, message, exc_info=error)
    diagnostics.append(Diagnostic(level, source, message))


@contextmanager
def watch_duration(source: str, what: str) -> Iterator[None]:
    """Log with the entry's name when the block, a synchronous call that nothing can bound, takes over 1 s."""
    started = monotonic()
    try:
        yield
    finally:
        seconds = monotonic() - started
        if seconds > SLOW_CALL_SECONDS:
            logger.warning("Extension %s: %s took %.1f s and held up the host", source, what, seconds)


def error_text(error: BaseException) -> str:
    """Return the text of an exception that foreign code raised; its type's name where it has none."""
    try:
        text = str.__str__(str(error))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: BLE001 - __str__ is foreign code too, and may even raise CancelledError
        text = ""
    return text or type_name(error)


def type_name(value: Any) -> str:
    """Return the name of the type of `value` without running any code of that type."""
    name: str = type.__dict__["__name__"].__get__(type(value))
    return name
