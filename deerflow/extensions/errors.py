"""What loading extensions can end in."""

from __future__ import annotations

from collections.abc import Sequence

from deerflow.errors import DeerFlowError


class ExtensionLoadError(DeerFlowError, RuntimeError):
    """The host must not start: a required entry could not be loaded, or an entry would harm the host.

    `source` is the entry point, `reason` what was written to the log about it.
    """

    def __init__(self, message: str, *, source: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.source = source
        self.reason = reason


class TablePrefixError(ExtensionLoadError):
    """A `table_prefix` covers tables of the host, which migrations would then no longer see."""

    def __init__(self, prefix: str, hidden: Sequence[str], *, source: str = "") -> None:
        message = f"extension table_prefix {prefix!r} would hide host-owned table(s) {list(hidden)}"
        super().__init__(message, source=source, reason="choose a prefix of the extension's own")
        self.prefix = prefix
        self.hidden = tuple(hidden)


class RegistrationError(DeerFlowError, TypeError):
    """An `install` handed the registry something that cannot be a contribution of that kind."""


class EntryRefused(DeerFlowError):
    """One entry will not be loaded: `message` is for the log, `problem` ends the text of a required one."""

    def __init__(self, message: str, problem: str) -> None:
        super().__init__(message)
        self.message = message
        self.problem = problem
