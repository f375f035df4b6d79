"""The progress of a run, one JSON line per event, readable after a crash in the middle of a line."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from axonx.components.job import ProgressEvent

_READ_BYTES = 1 << 20


class EventLogWriter:
    """Appends events to `events.jsonl`; each one is in the file when `append` returns."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        self._end_torn_line()

    def append(self, event: ProgressEvent) -> None:
        """Write one line. Raises OSError (disk full, for one)."""
        _write_all(self._descriptor, event.model_dump_json().encode() + b"\n")

    def close(self) -> None:
        os.close(self._descriptor)

    def _end_torn_line(self) -> None:
        size = os.lseek(self._descriptor, 0, os.SEEK_END)
        if size:
            os.lseek(self._descriptor, size - 1, os.SEEK_SET)
            if os.read(self._descriptor, 1) != b"\n":
                _write_all(self._descriptor, b"\n")


@dataclass(frozen=True)
class EventPage:
    """Events in the order of the file, and the byte offset at which to read on."""

    events: tuple[ProgressEvent, ...]
    next_offset: int


def read_events(path: Path, offset: int = 0) -> EventPage:
    """The events from byte `offset` on, about a megabyte at most; none where the file is missing.

    A last line without its end is left for the next read; a line that is no event is skipped.
    """
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(_READ_BYTES)
            if b"\n" not in data and len(data) == _READ_BYTES:
                data += file.readline()
    except FileNotFoundError:
        return EventPage((), offset)
    whole, newline, _ = data.rpartition(b"\n")
    events = (_parse(line) for line in whole.split(b"\n"))
    return EventPage(tuple(event for event in events if event), offset + len(whole) + len(newline))


def read_last_events(path: Path) -> EventPage:
    """The events in about the last megabyte of the file, oldest first; none where it is missing."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return EventPage((), 0)
    return read_events(path, max(size - _READ_BYTES, 0))


def _parse(line: bytes) -> ProgressEvent | None:
    try:
        return ProgressEvent.model_validate_json(line)
    except ValidationError:
        return None


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
