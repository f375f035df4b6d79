"""Files that are replaced whole: a reader sees the old content or the new, whatever is killed when."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, temporary: Path, data: bytes) -> None:
    """Replace `path` by `data`, by way of `temporary` in the same directory; on the disk on return.

    The caller holds a lock: two writers must not share one temporary file. Raises OSError.
    """
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o666)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    os.replace(temporary, path)
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    if os.name == "nt":  # directories cannot be opened there
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
