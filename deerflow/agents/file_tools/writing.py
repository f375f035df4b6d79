"""Write a file, or change a part of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from deerflow.agents.file_tools.arguments import MAX_WRITE_CHARACTERS, EditArguments, WriteArguments
from deerflow.agents.text import REPLACEMENT, quoted
from deerflow.agents.workspace import Workspace, WorkspaceError, parts_of, shown_path
from deerflow.agents.workspace.allowance import Allowance
from deerflow.agents.workspace.encoding import EditableText

_LINES_NAMED = 5


def write_file(workspace: Workspace, arguments: WriteArguments, allowance: Allowance) -> str:
    """Put the text in place, whole or not at all."""
    parts = parts_of(arguments.path)
    is_replaced = workspace.write(parts, arguments.content.encode(), allowance)
    verb = "replaced" if is_replaced else "created"
    return f"{verb} {quoted(shown_path(parts))} with {len(arguments.content)} characters"


def edit_file(workspace: Workspace, arguments: EditArguments, allowance: Allowance) -> str:
    """Replace text in a file; its encoding, its line ends and whatever in it is no text stay as they are."""
    parts = parts_of(arguments.path)
    name = quoted(shown_path(parts))
    if arguments.old_string == arguments.new_string:
        raise WorkspaceError("old_string and new_string are equal: there is nothing to change")
    with workspace.exclusive(parts, allowance):
        with workspace.open_file(parts) as file:
            before = EditableText.read(file, name)
        allowance.check()
        after, count = _edited(before.text, arguments, name)
        workspace.write(parts, replace(before, text=after).encoded(), allowance)
    return f"replaced {count} occurrence{'s' if count > 1 else ''} in {name}"


def _edited(text: str, arguments: EditArguments, name: str) -> tuple[str, int]:
    old, new = arguments.old_string, arguments.new_string
    if "\r\n" in text and text.count("\r\n") == text.count(
        "\n"
    ):  # shown with plain line ends, hence asked so
        old, new = (part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (old, new))
    count = text.count(old)
    if not count:
        raise WorkspaceError(f"{name} does not hold old_string{_likely_reason(text, old)}")
    if count > 1 and not arguments.replace_all:
        lines = ", ".join(dict.fromkeys(_line_numbers(text, old)))
        raise WorkspaceError(
            f"old_string stands {count} times in {name} (line {lines}): "
            "give more of the text around the one you mean, or set replace_all=true"
        )
    if len(text) + count * (len(new) - len(old)) > MAX_WRITE_CHARACTERS:
        raise WorkspaceError(f"{name} would have more than {MAX_WRITE_CHARACTERS} characters")
    return text.replace(old, new), count


def _likely_reason(text: str, old: str) -> str:
    if REPLACEMENT in old:
        return f": leave out '{REPLACEMENT}', it stands for bytes that are no text"
    if "\n" in old and "\r" in text:
        return ": the file mixes line ends, so change one line at a time"
    if old.strip() and old.strip() in text:
        return " with the blanks around it: copy them as they are in the file"
    return ": read the file again, and copy the text exactly"


def _line_numbers(text: str, old: str) -> Iterator[str]:
    position, line = 0, 1
    for _ in range(_LINES_NAMED):
        found = text.find(old, position)
        if found < 0:
            return
        line += text.count("\n", position, found)
        yield str(line)
        position = found + len(old)
        line += text.count("\n", found, position)
    if text.find(old, position) >= 0:
        yield "…"
