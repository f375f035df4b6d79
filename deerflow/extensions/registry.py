"""What an `install` writes to, and how its registrations become part of the snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deerflow_extension_api import ExtensionData, ExtensionRegistry

from deerflow.extensions.diagnostics import DiagnosticLog, report, type_name
from deerflow.extensions.errors import RegistrationError
from deerflow.extensions.snapshot import LoadedExtensions
from deerflow.extensions.table_prefixes import TablePrefixes


class Registrations:
    """Everything that the entries of one loading registered, each kind in registration order."""

    def __init__(self) -> None:
        self.middleware_contributors: list[tuple[str, Any]] = []
        self.task_lifecycle: list[tuple[str, Any]] = []
        self.system_model_observers: list[tuple[str, Any]] = []
        self.agent_assembly_observers: list[tuple[str, Any]] = []
        self.context_compaction_observers: list[tuple[str, Any]] = []
        self.services: list[tuple[str, Any]] = []
        self.routers: list[tuple[str, Any]] = []

    def add(self, entry: Registrations) -> None:
        """Append what one entry registered, of every kind."""
        for kind, contributions in vars(entry).items():
            getattr(self, kind).extend(contributions)

    def freeze(self, table_prefixes: TablePrefixes, diagnostics: DiagnosticLog) -> LoadedExtensions:
        """Return the immutable snapshot, with a new app store."""
        return LoadedExtensions(
            app_store=ExtensionData("app"),
            middleware_contributors=tuple(self.middleware_contributors),
            task_lifecycle=tuple(self.task_lifecycle),
            system_model_observers=tuple(self.system_model_observers),
            agent_assembly_observers=tuple(self.agent_assembly_observers),
            context_compaction_observers=tuple(self.context_compaction_observers),
            services=tuple(self.services),
            routers=tuple(self.routers),
            table_prefixes=table_prefixes,
            diagnostics=diagnostics,
        )


class EntryRegistry(ExtensionRegistry):
    """The registry of one `install` call. Its registrations count only once `close` handed them over.

    An install that fails is thereby taken back whole, and only it: not its namesake with another config.
    """

    def __init__(self, source: str, diagnostics: DiagnosticLog) -> None:
        self._source = source
        self._diagnostics = diagnostics
        self._entry = Registrations()
        self._open = True

    def close(self) -> Registrations:
        """Return what was registered; whoever kept this registry can add nothing from now on."""
        self._open = False
        return self._entry

    def middlewares(self, contributor: Any) -> None:
        """Register a middleware contributor."""
        self._add("middlewares", self._entry.middleware_contributors, contributor, "contribute_middlewares")

    def task_lifecycle(self, contributor: Any) -> None:
        """Register hooks around tasks."""
        self._add("task_lifecycle", self._entry.task_lifecycle, contributor, "on_task_start", "on_task_stop")

    def system_model_observer(self, observer: Any) -> None:
        """Register an observer of the host's own model calls."""
        self._add(
            "system_model_observer", self._entry.system_model_observers, observer, "on_system_model_call"
        )

    def agent_assembly_observer(self, observer: Any) -> None:
        """Register an observer of assemblies."""
        self._add(
            "agent_assembly_observer", self._entry.agent_assembly_observers, observer, "on_agent_assembled"
        )

    def context_compaction_observer(self, observer: Any) -> None:
        """Register an observer of compactions."""
        self._add(
            "context_compaction_observer",
            self._entry.context_compaction_observers,
            observer,
            "on_context_compacted",
        )

    def service(self, service: Any) -> None:
        """Register a service."""
        self._add("service", self._entry.services, service, "start", "stop")

    def routers(self, routers: Sequence[Any]) -> None:
        """Register routers, one snapshot entry each."""
        if isinstance(routers, (str, bytes)) or not isinstance(routers, Sequence):
            raise RegistrationError(
                f"extension {self._source}: registry.routers() takes a sequence of routers, "
                f"got {type_name(routers)}; write routers([router])"
            )
        for router in tuple(routers):
            self._add("routers", self._entry.routers, router)

    def _add(self, method: str, kind: list[tuple[str, Any]], contribution: Any, *hooks: str) -> None:
        if not self._open:
            message = f"registry.{method}() was called after install() had returned; nothing was registered"
            report(self._diagnostics, "warning", self._source, message)
            return
        self._check(method, contribution, hooks)
        kind.append((self._source, contribution))

    def _check(self, method: str, contribution: Any, hooks: tuple[str, ...]) -> None:
        """Refuse what can be no contribution; any single hook is enough, the others have defaults."""
        name = f"extension {self._source}: registry.{method}()"
        if contribution is None:
            raise RegistrationError(f"{name} got None; register an object")
        if isinstance(contribution, type):
            class_name = type.__dict__["__name__"].__get__(contribution)
            raise RegistrationError(f"{name} got the class {class_name}; register an instance of it")
        if hooks and not any(callable(getattr(contribution, hook, None)) for hook in hooks):
            raise RegistrationError(
                f"{name} got {type_name(contribution)}, which has no method {' or '.join(hooks)}"
            )
