"""Keep the whole of a long tool output in a file, where the file tools find it."""

from __future__ import annotations

import hashlib
import json
import re

from deerflow.agents.text import quoted
from deerflow.agents.tool_output.cutting import Content
from deerflow.agents.workspace import OUTPUTS_FOLDER, MissingPathError, Workspace, WorkspaceError
from deerflow.agents.workspace.allowance import Allowance

MAX_FOLDER_BYTES = 200_000_000
"""All kept outputs of one workspace together; what comes later is not kept."""

_MAX_ID_CHARACTERS = 80


def keep_output(
    content: Content, tool_call_id: str, *, workspace: Workspace, max_characters: int, allowance: Allowance
) -> str:
    """Write valid `content` to a file named after the call, and return where it is, for a notice.

    The name carries a digest: a call id that comes again hides no earlier output. Raises `WorkspaceError`.
    """
    text = (
        content
        if isinstance(content, str)
        else json.dumps(content, ensure_ascii=False, indent=1, default=str)
    )
    kept = text[:max_characters].encode()
    if _stored_bytes(workspace) + len(kept) > MAX_FOLDER_BYTES:
        raise WorkspaceError(f"the folder of long outputs is full ({MAX_FOLDER_BYTES} bytes)")
    safe_id = re.sub(r"[^A-Za-z0-9_-]", "_", tool_call_id)[:_MAX_ID_CHARACTERS]
    name = f"{safe_id}-{hashlib.sha256(kept).hexdigest()[:8]}.{'txt' if isinstance(content, str) else 'json'}"
    workspace.write((OUTPUTS_FOLDER, name), kept, allowance)
    what = "the whole is" if len(text) <= max_characters else f"its first {max_characters} characters are"
    return f"{what} in {quoted(f'{OUTPUTS_FOLDER}/{name}')}: read it with read_file, or search it with grep"


def _stored_bytes(workspace: Workspace) -> int:
    try:
        return sum(entry.size_bytes for entry in workspace.entries((OUTPUTS_FOLDER,)))
    except MissingPathError:
        return 0
