"""Read a file in parts that fit into a message, each saying how to read on."""

from __future__ import annotations

from typing import TextIO

from deerflow.agents.file_tools.arguments import ReadArguments
from deerflow.agents.text import quoted, valid_text
from deerflow.agents.workspace import Workspace, WorkspaceError, parts_of, shown_path
from deerflow.agents.workspace.allowance import Allowance
from deerflow.agents.workspace.encoding import opened_text

MAX_CHARACTERS = 50_000

_NOTICE_CHARACTERS = 200
_PIECE_CHARACTERS = 1 << 16


def read_file(workspace: Workspace, arguments: ReadArguments, allowance: Allowance) -> str:
    """Return what was asked of the file, at most `MAX_CHARACTERS`, the notice of a cut included."""
    parts = parts_of(arguments.path)
    name = quoted(shown_path(parts))
    with opened_text(workspace.open_file(parts), name) as text:
        try:
            _skip(text, arguments, allowance)
        except EOFError as error:
            raise WorkspaceError(f"{name} {error}") from None
        body = _taken(text, arguments.limit, allowance)
        more = text.read(_PIECE_CHARACTERS)
        if not more:
            return valid_text(body) or _nothing(name, arguments)
        kept = _shortened(body)
        rest = _Rest()
        rest.add(body[len(kept) :])
        rest.add(more)
        rest.add_all(text, allowance)
    return valid_text(kept) + _notice(kept, rest, arguments)


def _nothing(name: str, arguments: ReadArguments) -> str:
    if arguments.column:
        raise WorkspaceError(f"{name} ends at that column: read with a smaller column")
    if arguments.offset:
        raise WorkspaceError(f"{name} ends at line {arguments.offset}: read with a smaller offset")
    return "[the file is empty]"


class _Rest:
    """Counts what of a file was not returned: the characters up to the first line end, and the lines."""

    def __init__(self) -> None:
        self.line_characters = 0
        self._line_ends = 0
        self._is_line_open = False
        self.is_complete = True

    def add(self, chunk: str) -> None:
        if not chunk:
            return
        if not self._line_ends:
            end = chunk.find("\n")
            self.line_characters += len(chunk) if end < 0 else end
        self._line_ends += chunk.count("\n")
        self._is_line_open = not chunk.endswith("\n")

    def add_all(self, text: TextIO, allowance: Allowance) -> None:
        while chunk := text.read(_PIECE_CHARACTERS):
            allowance.check()
            self.add(chunk)
            if allowance.is_spent:
                self.is_complete = False
                return

    @property
    def lines(self) -> int:
        return self._line_ends + self._is_line_open


def _skip(text: TextIO, arguments: ReadArguments, allowance: Allowance) -> None:
    """Go to the wanted line and column; `EOFError` says what there is instead."""
    for skipped in range(arguments.offset):
        _skip_line(text, skipped, allowance)
    missing = arguments.column
    while missing:
        piece = text.readline(min(missing, _PIECE_CHARACTERS))
        if not piece or piece.endswith("\n"):
            length = arguments.column - missing + len(piece.rstrip("\n"))
            raise EOFError(f"has only {length} characters in that line: read with a smaller column")
        missing -= len(piece)


def _skip_line(text: TextIO, skipped: int, allowance: Allowance) -> None:
    is_there = False
    while piece := text.readline(_PIECE_CHARACTERS):
        allowance.check()
        if piece.endswith("\n"):
            return
        is_there = True
        if allowance.is_spent:
            raise WorkspaceError(f"reached only line {skipped} in {allowance.seconds:g} s: use grep instead")
    if not is_there:
        raise EOFError(f"ends at line {skipped}: read with a smaller offset")


def _taken(text: TextIO, limit: int, allowance: Allowance) -> str:
    pieces: list[str] = []
    room, lines = MAX_CHARACTERS, 0
    while lines < limit and room:
        allowance.check()
        piece = text.readline(room)
        if not piece:
            break
        pieces.append(piece)
        room -= len(piece)
        lines += piece.endswith("\n")
    return "".join(pieces)


def _shortened(body: str) -> str:
    """Return the part of `body` that leaves room for a notice: whole lines where there are any."""
    if body.endswith("\n") and len(body) <= MAX_CHARACTERS - _NOTICE_CHARACTERS:
        return body
    body = body[: MAX_CHARACTERS - _NOTICE_CHARACTERS]
    return body[: body.rfind("\n") + 1] or body


def _notice(kept: str, rest: _Rest, arguments: ReadArguments) -> str:
    at_least = "" if rest.is_complete else "at least "
    if kept.endswith("\n"):
        offset = arguments.offset + kept.count("\n")
        return f"[cut: {at_least}{rest.lines} more lines; read on with offset={offset}]"
    line, column = arguments.offset, arguments.column + len(kept)
    lines = f" and {rest.lines - 1} more lines" if rest.lines > 1 else ""
    return (
        f"\n[cut: {at_least}{rest.line_characters} more characters of this line{lines}; "
        f"read on with offset={line}, column={column}]"
    )
