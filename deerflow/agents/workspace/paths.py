"""Names inside a workspace: parsed once, before anything touches the disk.

`/` is the workspace itself, so `/notes.md` and `notes.md` are one file. `~` is never expanded.
"""

from __future__ import annotations

import unicodedata

from deerflow.agents.text import quoted, valid_text
from deerflow.agents.workspace.errors import WorkspaceError

Parts = tuple[str, ...]
"""A path inside the workspace, one name per folder; `()` is the workspace itself."""

MAX_NAME_BYTES = 255
MAX_DEPTH = 64


def parts_of(path: str) -> Parts:
    """Return the names that lead from the workspace to `path`.

    Raises `WorkspaceError` for `..`, a leading `~`, names that no file system takes, and deep nesting.
    """
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if len(parts) > MAX_DEPTH:
        raise WorkspaceError(f"{quoted(path)} is nested too deep: use at most {MAX_DEPTH} folders")
    if parts and parts[0] == "~":
        raise WorkspaceError(f"{quoted(path)} leads to a home folder: give a path inside the workspace")
    for part in parts:
        _check_name(part, path)
    return parts


def shown_path(parts: Parts) -> str:
    """Return `parts` as one line of valid text; the workspace itself is `.`."""
    text = valid_text("/".join(parts)) or "."
    if text.isprintable():
        return text
    return "".join(c if unicodedata.category(c) != "Cc" else f"\\x{ord(c):02x}" for c in text)


def _check_name(part: str, path: str) -> None:
    if part == "..":
        raise WorkspaceError(
            f"{quoted(path)} may leave the workspace: write the path from the workspace's top, without '..'"
        )
    if any(unicodedata.category(c) in ("Cc", "Cs") for c in part):
        raise WorkspaceError(
            f"{quoted(path)} holds a control character or half a character: use letters and digits"
        )
    if len(part.encode()) > MAX_NAME_BYTES:
        raise WorkspaceError(f"the name {quoted(part)} is too long: use at most {MAX_NAME_BYTES} bytes")
