"""Which bytes are text, and in which encoding."""

from __future__ import annotations

import codecs
import io
import os
from typing import BinaryIO, TextIO

from deerflow.agents.workspace.errors import WorkspaceError

_SAMPLE_BYTES = 8192
_MARKS = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (codecs.BOM_UTF8, "utf-8"),
)


class BinaryFileError(WorkspaceError):
    """The file holds no text."""


def opened_text(file: BinaryIO, name: str) -> TextIO:
    """Return `file`, at its start, as text with `\\n` line ends and U+FFFD for what cannot be decoded.

    Closing it closes `file`. Raises `BinaryFileError`, naming the file `name`.
    """
    mark, encoding = encoding_of(file, name)
    file.seek(len(mark))
    return io.TextIOWrapper(file, encoding=encoding, errors="replace", newline=None)


def encoding_of(file: BinaryIO, name: str) -> tuple[bytes, str]:
    """Return the byte order mark that `file` begins with (may be empty) and its encoding."""
    sample = os.pread(file.fileno(), _SAMPLE_BYTES, 0)
    for mark, encoding in _MARKS:
        if sample.startswith(mark):
            return mark, encoding
    if b"\0" in sample:
        size_bytes = os.fstat(file.fileno()).st_size
        raise BinaryFileError(f"{name} is a binary file of {size_bytes} bytes: it cannot be shown as text")
    return b"", "utf-8"
