"""Receive a file in pieces: aside first, then put in place whole, or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from deerflow.agents.workspace.descent import Place, opened_folder
from deerflow.agents.workspace.errors import WorkspaceError
from deerflow.agents.workspace.paths import MAX_NAME_BYTES
from deerflow.agents.workspace.replacing import ASIDE_FLAGS, PRIVATE_MODE, TEMPORARY_PREFIX, mode_before

MAX_NAMES_TRIED = 1_000


class IncomingFile:
    """A file on its way: nobody is shown it before it is put in place. Always `close` it.

    Its methods block, and are called one after the other. Errors are `WorkspaceError`.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._name = f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
        self._opened = ExitStack()
        with self._told(), ExitStack() as opening:
            self._folder = opening.enter_context(opened_folder(place.folder, create=True))
            mode_before(self._folder, place)  # a folder or link stands there: said before anything is sent
            file = os.open(self._name, ASIDE_FLAGS, PRIVATE_MODE, dir_fd=self._folder)
            self._file = opening.enter_context(os.fdopen(file, "wb", buffering=0))
            self._opened = opening.pop_all()

    def write(self, data: bytes) -> None:
        """Add to the end."""
        view = memoryview(data)
        with self._told():
            while view:
                view = view[self._file.write(view) or 0 :]

    def replace(self) -> bool:
        """Put the file at its place; whether another one made way, whose permissions it takes over."""
        with self._told():
            mode = mode_before(self._folder, self._place)
            if mode is not None:
                os.fchmod(self._file.fileno(), mode)
            os.replace(self._name, self._place.below[-1], src_dir_fd=self._folder, dst_dir_fd=self._folder)
        return mode is not None

    def add(self) -> str:
        """Put the file beside whatever is there, and return its name: `a.txt`, else `a (2).txt` and so on.

        No other file is ever replaced, whoever else is adding at the same time.
        """
        within = {"src_dir_fd": self._folder, "dst_dir_fd": self._folder}
        for name in _names_like(self._place.below[-1]):
            with self._told(), suppress(FileExistsError):
                os.link(self._name, name, **within, follow_symlinks=False)
                return name
        raise WorkspaceError(f"{self._place.name()} and {MAX_NAMES_TRIED} names like it are taken")

    def close(self) -> None:
        """Leave nothing aside. May be called again."""
        opened, self._opened = self._opened.pop_all(), ExitStack()
        with opened, suppress(OSError):
            os.unlink(self._name, dir_fd=self._folder)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except FileExistsError:
            raise
        except OSError as error:
            raise WorkspaceError(f"{self._place.name()} cannot be written: {error.strerror}") from None


def _names_like(name: str) -> Iterator[str]:
    yield name
    stem, suffix = os.path.splitext(name)
    for number in range(2, MAX_NAMES_TRIED + 1):
        ending = f" ({number}){suffix}"
        yield _cut(stem, MAX_NAME_BYTES - len(ending.encode())) + ending


def _cut(text: str, max_bytes: int) -> str:
    return text.encode()[: max(0, max_bytes)].decode(errors="ignore")
