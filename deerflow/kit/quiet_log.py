"""The log of extensions, kept from the terminal while a report says the same."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_LOGGER: Final = logging.getLogger("deerflow.extensions")


@contextmanager
def quiet_log() -> Iterator[None]:
    """Keep what the host would log about extensions from every handler."""

    def drop(record: logging.LogRecord) -> bool:
        return False

    _LOGGER.addFilter(drop)
    try:
        yield
    finally:
        _LOGGER.removeFilter(drop)
