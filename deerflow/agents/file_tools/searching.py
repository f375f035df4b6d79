"""Find files by name, and lines by what they say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deerflow.agents.file_tools.arguments import GlobArguments, GrepArguments
from deerflow.agents.file_tools.report import Report
from deerflow.agents.text import quoted
from deerflow.agents.workspace import FolderPathError, Parts, Workspace, WorkspaceError, parts_of, shown_path
from deerflow.agents.workspace.allowance import Allowance
from deerflow.agents.workspace.encoding import BinaryFileError, opened_text
from deerflow.agents.workspace.matching import compiled, matched_lines
from deerflow.agents.workspace.patterns import PathPattern
from deerflow.agents.workspace.walking import Walk

MAX_FILES = 1000
MAX_LINES = 500


def find_files(workspace: Workspace, arguments: GlobArguments, allowance: Allowance) -> str:
    """Return the paths of the files that match, one per line, in the order of names."""
    walk = Walk(workspace, PathPattern(arguments.pattern), allowance)
    report = Report(MAX_FILES)
    for path in walk.files(parts_of(arguments.path)):
        if not report.add(shown_path(path)):
            report.note("cut: there are more files; give a narrower pattern or path")
            break
    _note_gaps(report, walk)
    return report.text(when_empty=f"no file matches {quoted(arguments.pattern)} in {quoted(arguments.path)}")


def search_lines(workspace: Workspace, arguments: GrepArguments, allowance: Allowance) -> str:
    """Return the lines that match, as `path:line number: text`, file by file in the order of names."""
    search = _Search(workspace, arguments, allowance)
    report = Report(MAX_LINES)
    for line in search.found():
        if not report.add(line):
            report.note("cut: there are more lines; give a narrower pattern, path or glob")
            break
    if search.binary_files:
        report.note(f"binary files, not searched: {search.binary_files}")
    _note_gaps(report, search.walk)
    return report.text(
        when_empty=f"no line matches {quoted(arguments.pattern)} in {search.files} files searched"
    )


class _Search:
    """One search for lines, and what it came across."""

    def __init__(self, workspace: Workspace, arguments: GrepArguments, allowance: Allowance) -> None:
        self._workspace = workspace
        self._expression: Any = compiled(
            arguments.pattern, is_literal=arguments.literal, ignores_case=arguments.ignore_case
        )
        self._start = parts_of(arguments.path)
        self._allowance = allowance
        self.walk = Walk(workspace, PathPattern(_below_any_folder(arguments.glob)), allowance)
        self.files = 0
        self.binary_files = 0

    def found(self) -> Iterator[str]:
        try:
            yield from self._in_file(self._start)
        except FolderPathError:
            for path in self.walk.files(self._start):
                yield from self._in_walked_file(path)

    def _in_walked_file(self, path: Parts) -> Iterator[str]:
        try:
            yield from self._in_file(path)
        except BinaryFileError:
            self.binary_files += 1
        except WorkspaceError:
            self.walk.unreadable += 1

    def _in_file(self, path: Parts) -> Iterator[str]:
        name = shown_path(path)
        with opened_text(self._workspace.open_file(path), quoted(name)) as text:
            self.files += 1
            for number, line in matched_lines(self._expression, text, self._allowance):
                yield f"{name}:{number}: {line}"


def _below_any_folder(glob: str | None) -> str:
    """Let a pattern of names alone match in every folder."""
    if not glob:
        return "**"
    return glob if "/" in glob else f"**/{glob}"


def _note_gaps(report: Report, walk: Walk) -> None:
    if walk.unreadable:
        report.note(f"files and folders that could not be read: {walk.unreadable}")
    if walk.stop_reason:
        report.note(f"{walk.stop_reason}; give a narrower path to see the rest")
