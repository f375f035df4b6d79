"""Open files and folders below one folder, name by name, following no link.

Each name is opened relative to the folder that is already open, so nothing that changes meanwhile (a folder
swapped for a link) can lead elsewhere. Links are refused, also those that would stay inside.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deerflow.agents.text import quoted
from deerflow.agents.workspace.errors import FolderPathError, MissingPathError, WorkspaceError
from deerflow.agents.workspace.paths import Parts, shown_path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PRIVATE_FOLDER = 0o700

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFREG: "a file",
    stat.S_IFLNK: "a link, and links are not followed here",
    stat.S_IFIFO: "a pipe, not a file",
    stat.S_IFSOCK: "a socket, not a file",
    stat.S_IFCHR: "a device, not a file",
    stat.S_IFBLK: "a device, not a file",
}


@dataclass(frozen=True)
class Place:
    """Where a path of the workspace is reached: `below` the host's `base`, which stands at `above`."""

    base: Path
    below: Parts
    above: Parts = ()

    @property
    def folder(self) -> Place:
        """The folder around it; only where `below` is not empty."""
        return Place(self.base, self.below[:-1], self.above)

    def name(self, depth: int | None = None) -> str:
        """Return the path inside the workspace, down to `depth` names below `base`, for a message."""
        return quoted(shown_path(self.above + self.below[:depth]))


def kind_of(mode: int) -> str:
    """Return what a file mode stands for, with its article."""
    return _KINDS.get(stat.S_IFMT(mode), "not a file")


@contextmanager
def opened_folder(place: Place, *, create: bool = False) -> Iterator[int]:
    """Yield a descriptor of the folder at `place`; `create` makes what is missing, for this user only."""
    with _translated(place, 0):
        if create:
            _create_private_folder(place.base)
        folder = os.open(place.base, _FOLDER)
    try:
        for depth in range(1, len(place.below) + 1):
            child = _open_child_folder(folder, place, depth, create=create)
            os.close(folder)
            folder = child
        yield folder
    finally:
        os.close(folder)


def open_regular_file(place: Place) -> int:
    """Return a descriptor of the regular file at `place`, open for reading."""
    if not place.below:
        with _translated(place, 0):
            opened = os.open(place.base, _FILE)  # chosen by the host: its own path may lead through links
    else:
        with opened_folder(place.folder) as folder, _translated(place, None, folder):
            opened = os.open(place.below[-1], _FILE | os.O_NOFOLLOW, dir_fd=folder)
    mode = os.fstat(opened).st_mode
    if stat.S_ISREG(mode):
        return opened
    os.close(opened)
    if stat.S_ISDIR(mode):
        raise FolderPathError(f"{place.name()} is a folder: list it with ls")
    raise WorkspaceError(f"{place.name()} is {kind_of(mode)}")


def remove_file(place: Place) -> None:
    """Remove what stands at `place`, unless it is a folder; a link goes, and what it leads to stays."""
    with opened_folder(place.folder) as folder, _translated(place, None, folder):
        if stat.S_ISDIR(os.stat(place.below[-1], dir_fd=folder, follow_symlinks=False).st_mode):
            raise FolderPathError(f"{place.name()} is a folder, and only files are removed")
        os.unlink(place.below[-1], dir_fd=folder)


def _create_private_folder(folder: Path) -> None:
    missing = [above for above in (folder, *folder.parents) if not above.exists()]
    for above in reversed(missing):
        above.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)


def _open_child_folder(folder: int, place: Place, depth: int, *, create: bool) -> int:
    name = place.below[depth - 1]
    with _translated(place, depth, folder):
        if create:
            try:
                os.mkdir(name, _PRIVATE_FOLDER, dir_fd=folder)
            except FileExistsError:
                pass
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)


@contextmanager
def _translated(place: Place, depth: int | None, folder: int | None = None) -> Iterator[None]:
    """Turn an error of the system into one that names the path inside the workspace, and no other."""
    try:
        yield
    except FileNotFoundError:
        raise MissingPathError(f"there is no {place.name(depth)} in the workspace") from None
    except OSError as error:
        misfit = error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO)
        kind = _kind_at(place, depth, folder) if misfit else None
        reason = f"is {kind}" if kind else f"cannot be opened: {error.strerror}"
        raise WorkspaceError(f"{place.name(depth)} {reason}") from None


def _kind_at(place: Place, depth: int | None, folder: int | None) -> str | None:
    try:
        if folder is None:
            return kind_of(os.stat(place.base).st_mode)
        name = place.below[:depth][-1]
        return kind_of(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return None
