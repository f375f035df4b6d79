"""Which bytes are text, and in which encoding."""

from __future__ import annotations

import codecs
import io
import os
from dataclasses import dataclass, replace
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


MAX_EDITED_BYTES = 20_000_000


class BinaryFileError(WorkspaceError):
    """The file holds no text."""


@dataclass(frozen=True)
class EditableText:
    """A whole file as text that goes back to the same bytes, also where they are no valid text."""

    text: str
    mark: bytes
    encoding: str

    @property
    def _errors(self) -> str:
        return "surrogateescape" if self.encoding == "utf-8" else "surrogatepass"

    @classmethod
    def read(cls, file: BinaryIO, name: str) -> EditableText:
        """Return the whole of `file`, or raise a `WorkspaceError` that names it `name`."""
        mark, encoding = encoding_of(file, name)
        content = file.read(MAX_EDITED_BYTES + 1)
        if len(content) > MAX_EDITED_BYTES:
            raise WorkspaceError(f"{name} has more than {MAX_EDITED_BYTES} bytes: write a new file instead")
        whole = cls("", mark, encoding)
        try:
            return replace(whole, text=content[len(mark) :].decode(encoding, whole._errors))
        except UnicodeDecodeError:
            raise WorkspaceError(
                f"{name} is not valid {encoding}: replace it with write_file instead"
            ) from None

    def encoded(self) -> bytes:
        """Return the bytes of the file."""
        return self.mark + self.text.encode(self.encoding, self._errors)


def opened_text(file: BinaryIO, name: str) -> TextIO:
    """Return `file`, at its start, as text with `\\n` line ends and U+FFFD for what cannot be decoded.

    Closing it closes `file`. Raises `BinaryFileError`, naming the file `name`, and closes it.
    """
    try:
        mark, encoding = encoding_of(file, name)
    except BaseException:
        file.close()
        raise
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
