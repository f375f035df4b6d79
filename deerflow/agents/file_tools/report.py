"""Lines for a model, as many as fit, and what it should know about those that did not."""

from __future__ import annotations

MAX_CHARACTERS = 50_000
_NOTES_CHARACTERS = 1000


class Report:
    """Collects lines until one does not fit any more."""

    def __init__(self, max_lines: int) -> None:
        self._lines: list[str] = []
        self._notes: list[str] = []
        self._lines_left = max_lines
        self._room = MAX_CHARACTERS - _NOTES_CHARACTERS

    def add(self, line: str) -> bool:
        """Take the line, or return False where there is no room for it."""
        if not self._lines_left or len(line) >= self._room:
            return False
        self._lines.append(line)
        self._lines_left -= 1
        self._room -= len(line) + 1
        return True

    def note(self, note: str) -> None:
        """Say something about the lines, after them."""
        self._notes.append(f"[{note}]")

    def text(self, *, when_empty: str) -> str:
        """Return the lines and the notes, `MAX_CHARACTERS` at most."""
        return "\n".join([*(self._lines or [when_empty]), *self._notes])
