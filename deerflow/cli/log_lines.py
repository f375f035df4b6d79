"""The log on a person's terminal: warnings as one line each, tracebacks where `--debug` asks for them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

# The command itself says how its run ended.
_TOLD_ANYWAY: Final = "deerflow.runs.execute"


class _Lines(logging.Formatter):
    def __init__(self, *, with_tracebacks: bool) -> None:
        super().__init__("deerflow: %(message)s")
        self._with_tracebacks = with_tracebacks

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record) if self._with_tracebacks else f"deerflow: {record.getMessage()}"


@contextmanager
def log_lines() -> Iterator[None]:
    """Show warnings and errors of the log on standard error while a command runs."""
    debug = bool(click.get_current_context().find_root().params.get("debug"))
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(_Lines(with_tracebacks=debug))
    if not debug:
        handler.addFilter(lambda record: record.name != _TOLD_ANYWAY)
    logging.root.addHandler(handler)
    try:
        yield
    finally:
        logging.root.removeHandler(handler)
