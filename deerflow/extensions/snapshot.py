"""What loading produced, as one frozen value, and the set that counts for new runs of this process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from deerflow_extension_api import (
    AgentAssemblyObserver,
    ContextCompactionObserver,
    ExtensionData,
    ExtensionService,
    MiddlewareContributor,
    SystemModelCallObserver,
    TaskLifecycleContributor,
)

from deerflow.extensions.diagnostics import DiagnosticLog
from deerflow.extensions.table_prefixes import TablePrefixes

NOTIFICATION_BUDGET_SECONDS: Final = 3.0


def _app_store() -> ExtensionData:
    return ExtensionData("app")


@dataclass(frozen=True, eq=False)
class LoadedExtensions:
    """All contributions of one loading, each as `(entry point, contribution)` in registration order.

    Two snapshots are equal only where they are the same object, so that one can key a cache without running
    an extension's code. `diagnostics` is live: what goes wrong later is added to it. All contributors that
    are notified of one thing have `notification_budget_seconds` together.
    """

    app_store: ExtensionData = field(default_factory=_app_store)
    middleware_contributors: tuple[tuple[str, MiddlewareContributor], ...] = ()
    task_lifecycle: tuple[tuple[str, TaskLifecycleContributor], ...] = ()
    system_model_observers: tuple[tuple[str, SystemModelCallObserver], ...] = ()
    agent_assembly_observers: tuple[tuple[str, AgentAssemblyObserver], ...] = ()
    context_compaction_observers: tuple[tuple[str, ContextCompactionObserver], ...] = ()
    services: tuple[tuple[str, ExtensionService], ...] = ()
    routers: tuple[tuple[str, Any], ...] = ()
    table_prefixes: TablePrefixes = field(default_factory=TablePrefixes)
    diagnostics: DiagnosticLog = field(default_factory=DiagnosticLog, repr=False)
    notification_budget_seconds: float = NOTIFICATION_BUDGET_SECONDS

    @property
    def needs_task_store(self) -> bool:
        """Whether any contribution can see a task store; without one a run allocates none."""
        users = (
            self.middleware_contributors,
            self.task_lifecycle,
            self.system_model_observers,
            self.context_compaction_observers,
        )
        return any(len(contributions) > 0 for contributions in users)


class _ProcessWideSet:
    """The one place of this process that names the current set; new runs read it once, at their start."""

    def __init__(self) -> None:
        self.loaded = LoadedExtensions()


_current = _ProcessWideSet()


def get_loaded_extensions() -> LoadedExtensions:
    """Return the set that runs starting now are built from; an empty one before anything was loaded."""
    return _current.loaded


def set_loaded_extensions(loaded: LoadedExtensions) -> None:
    """Let runs that start from now on use `loaded`; runs under way keep theirs."""
    _current.loaded = loaded


def reset_loaded_extensions() -> None:
    """Go back to an empty set."""
    _current.loaded = LoadedExtensions()
