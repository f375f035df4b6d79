"""List a folder."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import takewhile

from deerflow.agents.file_tools.arguments import ListArguments
from deerflow.agents.file_tools.report import Report
from deerflow.agents.workspace import Entry, Workspace, parts_of, shown_path
from deerflow.agents.workspace.allowance import Allowance

MAX_ENTRIES = 1000


def list_folder(workspace: Workspace, arguments: ListArguments, allowance: Allowance) -> str:
    """Return one line per entry, by name: a folder ends in `/`, a file carries its size."""
    scanned = _Scanned(workspace.entries(parts_of(arguments.path)), allowance)
    entries = heapq.nsmallest(MAX_ENTRIES, scanned, key=lambda entry: entry.name)
    report = Report(MAX_ENTRIES)
    shown = sum(1 for _ in takewhile(report.add, map(_line, entries)))
    if scanned.count > shown:
        at_least = "at least " if allowance.is_spent else ""
        report.note(f"cut: {at_least}{scanned.count - shown} more entries; find them with glob")
    return report.text(when_empty="[the folder is empty]")


class _Scanned:
    """The entries of a folder while time lasts, counted."""

    def __init__(self, entries: Iterator[Entry], allowance: Allowance) -> None:
        self._entries = entries
        self._allowance = allowance
        self.count = 0

    def __iter__(self) -> Iterator[Entry]:
        for entry in self._entries:
            self._allowance.check()
            self.count += 1
            yield entry
            if self._allowance.is_spent:
                return


def _line(entry: Entry) -> str:
    name = shown_path((entry.name,))
    read_only = ", read-only" if entry.is_read_only else ""
    if entry.kind == "folder":
        return f"{name}/" + (" (read-only)" if entry.is_read_only else "")
    if entry.kind == "file":
        return f"{name} ({entry.size_bytes} bytes{read_only})"
    return f"{name} ({'a link, not followed' if entry.kind == 'link' else 'not a file'})"
