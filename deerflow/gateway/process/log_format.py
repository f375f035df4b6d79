"""Lines of the log, for people or for machines, each with the ids of what it belongs to."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any, Literal

from deerflow.log_ids import log_ids
from deerflow.runs.serialize import encode_json


class TextLines(logging.Formatter):
    """Lines for people."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        ids = " ".join(f"{name}={value}" for name, value in log_ids().items())
        return super().formatMessage(record) + (f" [{ids}]" if ids else "")


class JsonLines(logging.Formatter):
    """One JSON object for each line: `time`, `level`, `logger`, `message`, the ids, and `traceback`."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **log_ids(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return encode_json(line).decode()


def configure_logging(form: Literal["text", "json"]) -> None:
    """Write the log to stderr in this form, unless whoever started this process writes it already."""
    if logging.root.handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.root.addHandler(handler)
    logging.root.setLevel(logging.INFO)
    # It tells of each call to a model or a tool server, with the whole URL: keys stand there, too.
    logging.getLogger("httpx").setLevel(logging.WARNING)
