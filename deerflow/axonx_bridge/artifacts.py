"""The files of one call on their way from the Application's workspace to the thread's."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

from axonx.components.job import ArtifactEvent
from deerflow.agents.text import quoted, valid_text
from deerflow.agents.workspace import (
    FolderPathError,
    MissingPathError,
    Parts,
    Workspace,
    WorkspaceError,
    parts_of,
    shown_path,
)
from deerflow.agents.workspace.allowance import Allowance
from deerflow.agents.workspace.worker import in_worker

MAX_FILES: Final = 100
"""Files of one call; further ones stay where the Job wrote them."""

COPY_SECONDS: Final = 60.0
_MAX_NAMESAKES: Final = 1000


@dataclass(frozen=True)
class CopiedFile:
    """A file in the thread's workspace."""

    parts: Parts
    media_type: str | None
    size_bytes: int

    @property
    def path(self) -> str:
        """Where it is, as the file tools take it."""
        return shown_path(self.parts)

    def __str__(self) -> str:
        details = [*([self.media_type] if self.media_type else []), f"{self.size_bytes} bytes"]
        return f"{self.path} ({', '.join(details)})"


@dataclass
class ArtifactCopies:
    """Copies what a call publishes. `target` is the thread's workspace, None where there is none.

    A file never replaces another one of the thread: a namesake with other content gets a number.
    """

    source: Path
    target: Workspace | None
    folder: str
    max_bytes: int
    files: dict[str, CopiedFile] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    async def take(self, event: ArtifactEvent) -> CopiedFile | None:
        """Copy the file as it is now; None, with the reason in `problems`, where that cannot be done.

        A path that the call published before is copied to the same place again.
        """
        path = event.path
        self.problems.pop(path, None)
        if self.target is None:
            self.problems[path] = "this agent has no workspace"
        elif path not in self.files and len(self.files) >= MAX_FILES:
            self.problems[path] = f"a call hands over {MAX_FILES} files at most"
        else:
            try:
                work = partial(self._copy, self.target, event)
                self.files[path] = await in_worker(work, seconds=COPY_SECONDS)
                return self.files[path]
            except (WorkspaceError, OSError) as error:
                self.problems[path] = str(error)
        return None

    def lines(self) -> list[str]:
        """What the model has to know of the files, one line each."""
        copied = [f"File in the workspace: {file}" for file in self.files.values()]
        left = [f"File not copied: {path}: {reason}" for path, reason in self.problems.items()]
        return [valid_text(line) for line in copied + left]

    def _copy(self, target: Workspace, event: ArtifactEvent, allowance: Allowance) -> CopiedFile:
        content = self._read(event.path)
        earlier = self.files.get(event.path)
        if earlier is not None:
            parts = earlier.parts
            target.write(parts, content, allowance)
        else:
            wanted = (*parts_of(self.folder), PurePosixPath(event.path).name)
            parts = _write_new(target, wanted, content, allowance)
        return CopiedFile(parts, event.media_type, len(content))

    def _read(self, path: str) -> bytes:
        try:
            with Workspace(self.source).open_file(path) as file:
                content = file.read(self.max_bytes + 1)
        except MissingPathError:  # its text would name files of other calls
            raise WorkspaceError("there is no such file") from None
        if len(content) > self.max_bytes:
            raise WorkspaceError(f"it has more than {self.max_bytes} bytes")
        return content


def _write_new(target: Workspace, wanted: Parts, content: bytes, allowance: Allowance) -> Parts:
    """Write under the first name that is free, or that holds the same content already."""
    name = PurePosixPath(wanted[-1])
    for number in range(1, _MAX_NAMESAKES + 1):
        numbered = name.name if number == 1 else f"{name.stem}-{number}{name.suffix}"
        parts = (*wanted[:-1], numbered)
        with target.exclusive(parts, allowance):
            if _holds(target, parts, content):
                return parts
            if _is_free(target, parts):
                target.write(parts, content, allowance)
                return parts
    raise WorkspaceError(f"{quoted(shown_path(wanted))} has {_MAX_NAMESAKES} namesakes already")


def _holds(target: Workspace, parts: Parts, content: bytes) -> bool:
    try:
        with target.open_file(parts) as file:
            return file.read(len(content) + 1) == content
    except (MissingPathError, FolderPathError):
        return False


def _is_free(target: Workspace, parts: Parts) -> bool:
    try:
        target.open_file(parts).close()
    except MissingPathError:
        return True
    except FolderPathError:
        return False
    return False
