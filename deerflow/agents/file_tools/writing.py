"""Write a file."""

from __future__ import annotations

from deerflow.agents.file_tools.arguments import WriteArguments
from deerflow.agents.text import quoted
from deerflow.agents.workspace import Workspace, parts_of, shown_path
from deerflow.agents.workspace.allowance import Allowance


def write_file(workspace: Workspace, arguments: WriteArguments, allowance: Allowance) -> str:
    """Put the text in place, whole or not at all."""
    parts = parts_of(arguments.path)
    is_replaced = workspace.write(parts, arguments.content.encode(), allowance)
    verb = "replaced" if is_replaced else "created"
    return f"{verb} {quoted(shown_path(parts))} with {len(arguments.content)} characters"
