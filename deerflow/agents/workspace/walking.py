"""Go through the folders of a workspace, in the order of names and within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from deerflow.agents.workspace.allowance import Allowance
from deerflow.agents.workspace.errors import WorkspaceError
from deerflow.agents.workspace.paths import MAX_DEPTH, Parts
from deerflow.agents.workspace.patterns import PathPattern, Reached
from deerflow.agents.workspace.space import Workspace

MAX_VISITED = 100_000


class Walk:
    """One search for files below a folder; says afterwards whether it saw everything."""

    def __init__(self, workspace: Workspace, pattern: PathPattern, allowance: Allowance) -> None:
        self._workspace = workspace
        self._pattern = pattern
        self._allowance = allowance
        self._room = MAX_VISITED
        self.unreadable = 0

    @property
    def stop_reason(self) -> str | None:
        """Why the walk ended before it had seen everything, None where it did not."""
        if self._room < 0:
            return f"stopped after {MAX_VISITED} files and folders"
        return f"stopped after {self._allowance.seconds:g} s" if self._allowance.is_spent else None

    def files(self, start: Parts) -> Iterator[Parts]:
        """Yield the files below `start` that the pattern matches from there on; links are left out."""
        yield from self._files(start, self._pattern.start, is_start=True)

    def _files(self, folder: Parts, reached: Reached, *, is_start: bool = False) -> Iterator[Parts]:
        try:
            entries = sorted(islice(self._workspace.entries(folder), self._room + 1))
        except WorkspaceError:
            if is_start:
                raise
            self.unreadable += 1
            return
        for entry in entries:
            self._allowance.check()
            self._room -= 1
            if self.stop_reason:
                return
            path = (*folder, entry.name)
            following = self._pattern.step(reached, entry.name)
            if entry.kind == "file" and self._pattern.is_matched(following):
                yield path
            elif entry.kind == "folder" and following and len(path) < MAX_DEPTH:
                yield from self._files(path, following)
