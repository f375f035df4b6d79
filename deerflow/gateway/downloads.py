"""Send a file of a thread: piece by piece, and so that no browser runs what is in it.

Agents write whatever models and web pages make them write, and this server's origin holds the sessions of its
users. Only kinds of files that cannot act are shown; all others are handed out to be saved.
"""

from __future__ import annotations

import mimetypes
import os
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import BinaryIO, Final
from urllib.parse import quote

from starlette.types import Receive, Scope, Send

from deerflow.cancellation import uninterrupted
from deerflow.gateway.responses import LastingResponse
from deerflow.gateway.uploads import on_disk

PIECE_BYTES = 256 * 1024
UNKNOWN: Final = "application/octet-stream"
PLAIN_TEXT: Final = "text/plain; charset=utf-8"

# SVG, HTML, XML and PDF are left out: they can hold scripts.
SHOWN_TYPES: Final = frozenset(
    {"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"}
    | {"audio/mpeg", "audio/ogg", "audio/wav", "audio/x-wav", "video/mp4", "video/webm"}
)
_TEXT_SUFFIXES: Final = frozenset(
    {".txt", ".md", ".csv", ".tsv", ".log", ".json", ".jsonl", ".yaml", ".yml", ".toml", ".ini", ".py"}
)
_HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; sandbox",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "private, no-cache",
}


class FileDownload(LastingResponse):
    """The content of an open file under a name; closes the file. It must be called."""

    def __init__(self, file: BinaryIO, size_bytes: int, name: str) -> None:
        media_type, shown = safe_type(name)
        headers: Mapping[str, str] = {**_HEADERS, "content-disposition": disposition(name, shown=shown)}
        super().__init__(_pieces(file, size_bytes), media_type=media_type, headers=headers)
        self.headers["content-length"] = str(size_bytes)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await uninterrupted(on_disk(self._file.close), name="closing a file that was sent")


def safe_type(name: str) -> tuple[str, bool]:
    """The content type for a file of this name, and whether a browser may show it."""
    if os.path.splitext(name)[1].lower() in _TEXT_SUFFIXES:
        return PLAIN_TEXT, True
    guessed = mimetypes.guess_type(f"file{os.path.splitext(name)[1]}", strict=True)[0]
    return (guessed, True) if guessed in SHOWN_TYPES and guessed is not None else (UNKNOWN, False)


def disposition(name: str, *, shown: bool) -> str:
    """The header `Content-Disposition`, as of RFC 6266."""
    kind = "inline" if shown else "attachment"
    plain = "".join(c if c.isascii() and (c.isalnum() or c in " ._-()") else "_" for c in name)
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


async def _pieces(file: BinaryIO, size_bytes: int) -> AsyncGenerator[bytes]:
    left_bytes = size_bytes
    while left_bytes:
        piece = await on_disk(partial(file.read, min(PIECE_BYTES, left_bytes)))
        if not piece:  # cut short meanwhile: the client sees that the announced length was not reached
            return
        left_bytes -= len(piece)
        yield piece
