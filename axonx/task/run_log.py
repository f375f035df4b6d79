"""What a Task wrote to its log, by byte offset."""

from __future__ import annotations

import codecs
from pathlib import Path

from axonx.components.job import LogEvent

DEFAULT_WINDOW_BYTES = 8192
LARGEST_WINDOW_BYTES = 262_144


def read_log_window(path: Path, offset: int = -1, limit: int = DEFAULT_WINDOW_BYTES) -> LogEvent:
    """Up to `limit` bytes from byte `offset` on; a negative offset reads the end of the log.

    `next_offset` is where to read on. The text never begins or ends inside a character. An offset
    behind the end means that the log was replaced: the answer has `reset` and begins at 0. A log
    that does not exist yet is empty. Raises ValueError for a limit outside 1..262144.
    """
    if not 1 <= limit <= LARGEST_WINDOW_BYTES:
        raise ValueError(f"limit must be between 1 and {LARGEST_WINDOW_BYTES} bytes, got {limit}")
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            reset = offset > size
            start = max(size - limit, 0) if offset < 0 else (0 if reset else offset)
            file.seek(start)
            data = file.read(limit)
    except FileNotFoundError:
        return LogEvent(reset=offset > 0)
    skipped = _continuation_bytes(data) if offset < 0 < start else 0
    text, used = _decode_whole_characters(data[skipped:])
    begin, end = start + skipped, start + skipped + used
    return LogEvent(
        content=text,
        start_offset=begin,
        next_offset=end,
        file_size=size,
        has_more_before=begin > 0,
        has_more_after=end < size,
        reset=reset,
    )


def _continuation_bytes(data: bytes) -> int:
    count = 0
    while count < min(3, len(data)) and data[count] & 0xC0 == 0x80:
        count += 1
    return count


def _decode_whole_characters(data: bytes) -> tuple[str, int]:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(data)
    pending = len(decoder.getstate()[0])
    if data and pending == len(data):  # nothing but a partial character: reading must still go on
        return decoder.decode(b"", final=True), len(data)
    return text, len(data) - pending
