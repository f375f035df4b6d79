"""Write a file, or change a part of one."""

from __future__ import annotations

from deerflow.agents.file_tools.arguments import MAX_WRITE_CHARACTERS, EditArguments, WriteArguments
from deerflow.agents.text import REPLACEMENT, quoted
from deerflow.agents.workspace import Parts, Workspace, WorkspaceError, parts_of, shown_path
from deerflow.agents.workspace.allowance import Allowance
from deerflow.agents.workspace.encoding import decoded, encoding_of

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
    with workspace.exclusive(parts, allowance):
        mark, encoding, text = _read_whole(workspace, parts)
        old, new = _with_line_ends_of(text, arguments.old_string, arguments.new_string)
        count = _checked_count(text, old, arguments, quoted(shown_path(parts)))
        if len(text) + count * (len(new) - len(old)) > MAX_WRITE_CHARACTERS:
            raise WorkspaceError(f"the file would have more than {MAX_WRITE_CHARACTERS} characters")
        changed = text.replace(old, new)
        workspace.write(parts, mark + changed.encode(encoding, _errors(encoding)), allowance)
    return f"replaced {count} occurrence{'s' if count > 1 else ''} in {quoted(shown_path(parts))}"
