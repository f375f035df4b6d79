"""Put a file in place whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from io import RawIOBase

from deerflow.agents.workspace.allowance import Allowance
from deerflow.agents.workspace.descent import Place, kind_of, opened_folder
from deerflow.agents.workspace.errors import WorkspaceError

TEMPORARY_PREFIX = ".deerflow-part-"
"""Begins the names of files that are being written; nobody is shown them."""

ASIDE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
PRIVATE_MODE = 0o600
_STEP_BYTES = 1 << 20


def replace_file(place: Place, content: bytes, allowance: Allowance) -> bool:
    """Put `content` at `place`, below its base; return whether a file stood there before.

    The content is written aside and renamed, so a reader sees the old file or the new one; when the
    `allowance` was given up before the rename, `AbandonedError` is raised and nothing has changed.
    """
    with opened_folder(place.folder, create=True) as folder:
        mode = mode_before(folder, place)
        temporary = f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
        try:
            with os.fdopen(
                os.open(temporary, ASIDE_FLAGS, PRIVATE_MODE, dir_fd=folder), "wb", buffering=0
            ) as aside:
                _fill(aside, content, allowance)
                if mode is not None:
                    os.fchmod(aside.fileno(), mode)
            allowance.check()
            os.replace(temporary, place.below[-1], src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            raise WorkspaceError(f"{place.name()} cannot be written: {error.strerror}") from None
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
    return mode is not None


def mode_before(folder: int, place: Place) -> int | None:
    """Return the permissions of the file at `place`, whose folder is open; None where there is none."""
    try:
        mode = os.stat(place.below[-1], dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WorkspaceError(f"{place.name()} cannot be written: {error.strerror}") from None
    if not stat.S_ISREG(mode):
        raise WorkspaceError(f"{place.name()} is {kind_of(mode)}: write to another name")
    return stat.S_IMODE(mode) & 0o777


def _fill(aside: RawIOBase, content: bytes, allowance: Allowance) -> None:
    view = memoryview(content)
    while view:
        allowance.check()
        view = view[aside.write(view[:_STEP_BYTES]) or 0 :]
