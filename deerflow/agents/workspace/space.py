"""One thread's files, as its agents see them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import BinaryIO, Literal, NamedTuple

from deerflow.agents.text import quoted
from deerflow.agents.workspace.allowance import Allowance
from deerflow.agents.workspace.descent import Place, open_regular_file, opened_folder, remove_file
from deerflow.agents.workspace.errors import FolderPathError, MissingPathError, WorkspaceError
from deerflow.agents.workspace.paths import Parts, parts_of, shown_path
from deerflow.agents.workspace.receiving import IncomingFile
from deerflow.agents.workspace.replacing import TEMPORARY_PREFIX, replace_file

OUTPUTS_FOLDER = ".outputs"
"""Holds what was too long for a message; read and searched by name, left out of listings and walks."""

_NAMES_COMPARED = 1000
# Shared by the paths whose hashes meet: a fixed number, so none has ever to be removed.
_WRITE_LOCKS = tuple(RLock() for _ in range(64))
_LOCK_POLL_SECONDS = 0.1

Kind = Literal["file", "folder", "link", "other"]


class Entry(NamedTuple):
    """What one name in a folder stands for."""

    name: str
    kind: Kind
    size_bytes: int
    is_read_only: bool


@dataclass(frozen=True)
class Workspace:
    """The folder of one thread, made when something is first written, and what is mounted into it.

    `mounts` shows files and folders of the host under a name inside the workspace (`docs/guide.md` is a
    name, too); they hide what else stands there, and are read-only. Paths are those of `parts_of`; whatever
    cannot be done raises `WorkspaceError`, or `MissingPathError` where nothing stands.
    """

    root: Path
    mounts: Mapping[str, Path] = field(default_factory=dict, hash=False)
    _mounted: Mapping[Parts, Path] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        mounted = {parts_of(name): path for name, path in self.mounts.items()}
        if () in mounted:
            raise WorkspaceError("a mount needs a name inside the workspace, such as 'README.md'")
        object.__setattr__(self, "_mounted", mounted)

    def open_file(self, path: str | Parts) -> BinaryIO:
        """Return the regular file at `path`, open for reading; the caller closes it."""
        parts = _parts(path)
        if not parts or self._holds_mounts(parts):
            raise FolderPathError(f"{quoted(shown_path(parts))} is a folder: list it with ls")
        try:
            return os.fdopen(open_regular_file(self._place(parts)), "rb")
        except MissingPathError:
            raise self._missing(parts) from None

    def entries(self, path: str | Parts) -> Iterator[Entry]:
        """Yield what stands in the folder at `path`, in no order; a workspace not yet made is empty."""
        parts = _parts(path)
        shown = {name: self._mounted_entry((*parts, name)) for name in self._mounted_names(parts)}
        yield from shown.values()
        place = self._place(parts)
        try:
            with opened_folder(place) as folder, os.scandir(folder) as scanned:
                for found in scanned:
                    if found.name not in shown and not _is_hidden((*parts, found.name)):
                        yield _entry(found, is_read_only=bool(place.above))
        except MissingPathError:
            if parts and not shown:
                raise self._missing(parts) from None

    def write(self, path: str | Parts, content: bytes, allowance: Allowance | None = None) -> bool:
        """Put `content` at `path`, whole or not at all; return whether a file was replaced.

        Missing folders are made. A file keeps its permissions; a new one is for this user only.
        """
        parts = _parts(path)
        place = self._writable_place(parts)
        allowance = allowance or Allowance()
        with self.exclusive(parts, allowance):
            return replace_file(place, content, allowance)

    def receive(self, path: str | Parts) -> IncomingFile:
        """Begin to receive a file that is to stand at `path`; missing folders are made."""
        return IncomingFile(self._writable_place(_parts(path)))

    def remove(self, path: str | Parts, allowance: Allowance | None = None) -> None:
        """Remove the file (or link) at `path`; folders stay."""
        parts = _parts(path)
        place = self._writable_place(parts)
        with self.exclusive(parts, allowance or Allowance()):
            try:
                remove_file(place)
            except MissingPathError:
                raise self._missing(parts) from None

    @contextmanager
    def exclusive(self, path: str | Parts, allowance: Allowance) -> Iterator[None]:
        """Keep other writers of this process from the file meanwhile; the same thread may enter again."""
        lock = _WRITE_LOCKS[hash((self.root, _parts(path))) % len(_WRITE_LOCKS)]
        while not lock.acquire(timeout=_LOCK_POLL_SECONDS):
            allowance.check()
            if allowance.is_spent:
                raise WorkspaceError(
                    f"{quoted(shown_path(_parts(path)))} is being written by another call: try again"
                )
        try:
            yield
        finally:
            lock.release()

    def _missing(self, parts: Parts) -> MissingPathError:
        try:
            names = [entry.name for entry in islice(self.entries(parts[:-1]), _NAMES_COMPARED)]
        except WorkspaceError:
            names = []
        alike = get_close_matches(parts[-1], names, cutoff=0.6) or [
            name for name in names if name.lower() == parts[-1].lower()
        ]
        hint = f"did you mean {', '.join(quoted(shown_path((*parts[:-1], name))) for name in alike)}?"
        return MissingPathError(
            f"there is no {quoted(shown_path(parts))} in the workspace: "
            + (hint if alike else "see what there is with ls or glob")
        )

    def _writable_place(self, parts: Parts) -> Place:
        if not parts or self._holds_mounts(parts):
            raise WorkspaceError(f"{quoted(shown_path(parts))} is a folder: give the name of a file")
        place = self._place(parts)
        if place.above:
            raise WorkspaceError(f"{quoted(shown_path(parts))} is read-only: write to another name")
        return place

    def _place(self, parts: Parts) -> Place:
        for depth in range(len(parts), 0, -1):
            if (mounted := self._mounted.get(parts[:depth])) is not None:
                return Place(mounted, below=parts[depth:], above=parts[:depth])
        return Place(self.root, below=parts)

    def _holds_mounts(self, parts: Parts) -> bool:
        return bool(self._mounted_names(parts))

    def _mounted_names(self, parts: Parts) -> set[str]:
        depth = len(parts)
        return {name[depth] for name in self._mounted if len(name) > depth and name[:depth] == parts}

    def _mounted_entry(self, parts: Parts) -> Entry:
        mounted = self._mounted.get(parts)
        if mounted is None:
            return Entry(parts[-1], "folder", 0, is_read_only=False)
        try:
            status = mounted.stat()
        except OSError:
            return Entry(parts[-1], "other", 0, is_read_only=True)
        return Entry(parts[-1], _kind(status.st_mode), status.st_size, is_read_only=True)


def _parts(path: str | Parts) -> Parts:
    return parts_of(path) if isinstance(path, str) else path


def _is_hidden(parts: Parts) -> bool:
    return parts == (OUTPUTS_FOLDER,) or parts[-1].startswith(TEMPORARY_PREFIX)


def _entry(found: os.DirEntry[str], *, is_read_only: bool) -> Entry:
    try:
        status = found.stat(follow_symlinks=False)
    except OSError:  # gone since the folder was read
        return Entry(found.name, "other", 0, is_read_only)
    return Entry(found.name, _kind(status.st_mode), status.st_size, is_read_only)


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"
