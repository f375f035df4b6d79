"""What a workspace refuses, in words that a model can act on."""

from __future__ import annotations

from deerflow.errors import DeerFlowError


class WorkspaceError(DeerFlowError):
    """A path or an operation that the workspace does not allow, or that its files do not allow."""


class MissingPathError(WorkspaceError):
    """Nothing stands at the path."""


class FolderPathError(WorkspaceError):
    """A folder stands where a file was asked for."""
