"""What the commands for extensions end in. Each text says what failed, where, and what to do."""

from __future__ import annotations

from deerflow.errors import DeerFlowError


class KitError(DeerFlowError):
    """A command for extensions could not do what was asked; nothing was changed."""


class WrongUseError(KitError, ValueError):
    """What was asked for makes no sense as it was written."""
