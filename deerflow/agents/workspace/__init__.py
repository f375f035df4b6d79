"""The files of one thread: a folder that nothing leads out of, and what is shown in it read-only."""

from deerflow.agents.workspace.errors import FolderPathError, MissingPathError, WorkspaceError
from deerflow.agents.workspace.paths import Parts, parts_of, shown_path
from deerflow.agents.workspace.receiving import IncomingFile
from deerflow.agents.workspace.space import OUTPUTS_FOLDER, Entry, Workspace

__all__ = [
    "OUTPUTS_FOLDER",
    "Entry",
    "FolderPathError",
    "IncomingFile",
    "MissingPathError",
    "Parts",
    "Workspace",
    "WorkspaceError",
    "parts_of",
    "shown_path",
]
