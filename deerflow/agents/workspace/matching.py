"""Find the lines of a text that a regular expression matches, in time linear in the text.

RE2 takes no expression that could run away: it has no backreferences and no look-around, and refuses what
would need much memory. Text is matched in blocks of whole lines; a line longer than `MAX_PIECE_CHARACTERS`
is taken in overlapping pieces, so anchors hold for a piece there, and a match longer than the overlap may
be missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TextIO

import re2  # type: ignore[import-untyped]

from deerflow.agents.text import quoted
from deerflow.agents.workspace.allowance import Allowance
from deerflow.agents.workspace.errors import WorkspaceError

MAX_EXPRESSION_CHARACTERS = 1000
MAX_PIECE_CHARACTERS = 1 << 18
MAX_SHOWN_CHARACTERS = 300

_CHUNK_CHARACTERS = 1 << 16
_OVERLAP_CHARACTERS = 1 << 10
_MEMORY_BYTES = 4 << 20


class MatchedLine(NamedTuple):
    """A line that matches: its number from 1, and its text, or the part of it around the match."""

    number: int
    text: str


def compiled(pattern: str, *, is_literal: bool, ignores_case: bool) -> Any:
    """Return the expression for `matched_lines`; raises `WorkspaceError` for one that is not accepted."""
    if len(pattern) > MAX_EXPRESSION_CHARACTERS:
        raise WorkspaceError(f"the pattern has more than {MAX_EXPRESSION_CHARACTERS} characters: shorten it")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True  # groups cost memory per match, and nobody asks for them
    options.never_nl = True
    options.case_sensitive = not ignores_case
    options.max_mem = _MEMORY_BYTES
    try:
        return re2.compile(re2.escape(pattern) if is_literal else f"(?m){pattern}", options)
    except re2.error as error:
        said = error.args[0].decode("utf-8", "replace") if error.args else "unknown"
        raise WorkspaceError(
            f"the pattern {quoted(pattern)} is not accepted ({said}): write it in RE2 syntax, "
            "without look-around and backreferences, or set literal=true to find the text itself"
        ) from None
    finally:
        re2.purge()  # its cache would keep the memory of the last 128 expressions


def matched_lines(expression: Any, text: TextIO, allowance: Allowance) -> Iterator[MatchedLine]:
    """Yield the lines that match, each once, in order; ends early when the allowance is spent."""
    line, last_found = 1, 0
    for block in _blocks(text):
        allowance.check()
        if allowance.is_spent:
            return
        encoded = block.encode()
        counted = position = 0
        while position < len(encoded) and (found := expression.search(encoded, position)):
            start = found.start()
            line += encoded.count(b"\n", counted, start)
            counted = start
            begin = encoded.rfind(b"\n", 0, start) + 1
            end = encoded.find(b"\n", start)
            position = len(encoded) if end < 0 else end + 1
            if line != last_found:
                last_found = line
                yield MatchedLine(line, _around(encoded[begin:position].rstrip(b"\n"), start - begin))
        line += encoded.count(b"\n", counted)


def _blocks(text: TextIO) -> Iterator[str]:
    """Yield the text in whole lines, or in overlapping pieces of a line that is too long."""
    pending = ""
    while chunk := text.read(_CHUNK_CHARACTERS):
        pending += chunk
        end = pending.rfind("\n") + 1
        if end:
            yield pending[:end]
            pending = pending[end:]
        elif len(pending) >= MAX_PIECE_CHARACTERS:
            yield pending
            pending = pending[-_OVERLAP_CHARACTERS:]
    if pending:
        yield pending


def _around(line: bytes, start: int) -> str:
    """Return the line, or what of it stands around the byte where the match starts."""
    shown = line.decode("utf-8", "replace")
    if len(shown) <= MAX_SHOWN_CHARACTERS:
        return shown
    before = len(line[:start].decode("utf-8", "replace"))
    begin = max(0, min(before - MAX_SHOWN_CHARACTERS // 3, len(shown) - MAX_SHOWN_CHARACTERS))
    end = begin + MAX_SHOWN_CHARACTERS
    return f"{'…' if begin else ''}{shown[begin:end]}{'…' if end < len(shown) else ''}"
