"""Problems that belong to one extension: said in the log, and kept for the operator."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from threading import Lock
from time import monotonic
from typing import Any, Final, Literal

logger = logging.getLogger("deerflow.extensions")

KEPT_DIAGNOSTICS: Final = 1000
SLOW_CALL_SECONDS = 1.0

Level = Literal["warning", "error"]
_LOG_LEVELS: Final = {"warning": logging.WARNING, "error": logging.ERROR}


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Diagnostic:
    """One problem; `source` is the entry point (`module.path:attribute`) of the extension it belongs to.

    `count` says how often it was met, `first_at` and `last_at` when (UTC); they make no difference to whether
    two are equal.
    """

    level: Level
    source: str
    message: str
    count: int = field(default=1, compare=False)
    first_at: datetime = field(default_factory=_now, compare=False, repr=False)
    last_at: datetime = field(default_factory=_now, compare=False, repr=False)


class DiagnosticLog(list[Diagnostic]):
    """A live list of the newest 1000 diagnostics, oldest first. Any thread may add to it."""

    def __init__(self, diagnostics: Iterable[Diagnostic] = ()) -> None:
        super().__init__(diagnostics)
        self._lock = Lock()

    def append(self, diagnostic: Diagnostic) -> None:
        """Add one, dropping the oldest where there is no room."""
        with self._lock:
            self._add(diagnostic)

    def tally(self, diagnostic: Diagnostic) -> None:
        """Add one that may come with every call: where an equal one is there, it is counted and becomes the
        newest, so that it pushes no other out."""
        with self._lock:
            earlier = self._taken(diagnostic)
            if earlier is not None:
                diagnostic = replace(diagnostic, count=earlier.count + 1, first_at=earlier.first_at)
            self._add(diagnostic)

    def _add(self, diagnostic: Diagnostic) -> None:
        super().append(diagnostic)
        del self[:-KEPT_DIAGNOSTICS]

    def _taken(self, diagnostic: Diagnostic) -> Diagnostic | None:
        # From the newest on: what fails at every call is found at once.
        for index in range(len(self) - 1, -1, -1):
            if self[index] == diagnostic:
                return self.pop(index)
        return None


def report(
    diagnostics: list[Diagnostic],
    level: Level,
    source: str,
    message: str,
    *,
    error: BaseException | None = None,
) -> None:
    """Write `Extension <source>: <message>` to the log, with the traceback of `error`, and collect it."""
    _write(level, source, message, error)
    diagnostics.append(Diagnostic(level, source, message))


def report_call(
    diagnostics: DiagnosticLog,
    level: Level,
    source: str,
    message: str,
    *,
    error: BaseException | None = None,
) -> None:
    """The same for one of many calls: each is written to the log, equal ones are collected as one."""
    _write(level, source, message, error)
    diagnostics.tally(Diagnostic(level, source, message))


def _write(level: Level, source: str, message: str, error: BaseException | None) -> None:
    logger.log(_LOG_LEVELS[level], "Extension %s: %s", source, message, exc_info=error)


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
