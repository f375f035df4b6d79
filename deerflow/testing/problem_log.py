"""What the log says that extensions did wrong, kept while somebody wants to know."""

from __future__ import annotations

import logging
from typing import Final, Self

_LOGGER: Final = logging.getLogger("deerflow.extensions")
_PREFIX: Final = "Extension "


class ProblemLog(logging.Handler):
    """Collects the warnings and errors that name an extension, as lines without their traceback."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: list[str] = []

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines so far, in order."""
        return tuple(self._lines)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text.startswith(_PREFIX):
            self._lines.append(text.removeprefix(_PREFIX))

    def __enter__(self) -> Self:
        _LOGGER.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        _LOGGER.removeHandler(self)
        self.close()
