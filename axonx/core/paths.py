"""Paths that come from outside and must stay in the workspace."""

from __future__ import annotations

import re
from pathlib import Path

from axonx.errors import PathOutsideWorkspaceError

_DRIVE = re.compile(r"^[A-Za-z]:")


def check_relative(path: str) -> str:
    """Return `path` if it is a plain relative POSIX path; raise `PathOutsideWorkspaceError` otherwise.

    Reads nothing: a link inside the workspace is only seen by `confined`.
    """
    reason = _refusal(path)
    if reason:
        raise PathOutsideWorkspaceError(f"{path!r} must be a relative path inside the workspace: {reason}")
    return path


def confined(workspace: Path, path: str) -> Path:
    """The absolute path of `path` in `workspace`, links resolved; it need not exist.

    Raises `PathOutsideWorkspaceError`, a `ValueError`.
    """
    root = workspace.resolve()
    resolved = (root / check_relative(path)).resolve()
    if not resolved.is_relative_to(root):
        raise PathOutsideWorkspaceError(f"{path!r} leaves the workspace through a link")
    return resolved


def _refusal(path: str) -> str | None:
    if not path:
        return "it is empty"
    if "\0" in path:
        return "it holds a null character"
    if "\\" in path:
        return "use '/' instead of backslashes"
    if path.startswith("/") or _DRIVE.match(path):
        return "it is absolute"
    if path.startswith("~"):
        return "'~' is not expanded"
    if any(part in ("", ".", "..") for part in path.split("/")):
        return "leave out empty parts, '.' and '..'"
    return None
