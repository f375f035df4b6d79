"""How an extension enters the host: its `install` function and the registry that it writes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from .assembly import AgentAssemblyObserver
from .compaction import ContextCompactionObserver
from .lifecycle import TaskLifecycleContributor
from .middleware import MiddlewareContributor
from .observers import SystemModelCallObserver
from .services import ExtensionService


@runtime_checkable
class ExtensionRegistry(Protocol):
    """What `install` writes to. Nothing can be read back; each method may be called any number of times.

    Registrations keep their order, and belong to the entry whose `install` made them: where it raises, the
    host takes all of them back. Each default registers nothing, so a partial registry serves in tests.
    """

    def middlewares(self, contributor: MiddlewareContributor) -> None:
        """Let `contributor` add middlewares whenever an agent is assembled."""
        return

    def task_lifecycle(self, contributor: TaskLifecycleContributor) -> None:
        """Tell `contributor` when a lead or subagent task starts and stops."""
        return

    def system_model_observer(self, observer: SystemModelCallObserver) -> None:
        """Tell `observer` of the model calls that the host makes for itself."""
        return

    def agent_assembly_observer(self, observer: AgentAssemblyObserver) -> None:
        """Tell `observer` what each assembled agent consists of."""
        return

    def context_compaction_observer(self, observer: ContextCompactionObserver) -> None:
        """Tell `observer` when messages were replaced by a summary."""
        return

    def service(self, service: ExtensionService) -> None:
        """Start `service` with the host and stop it, in reverse order, at shutdown."""
        return

    def routers(self, routers: Sequence[Any]) -> None:
        """Mount these FastAPI routers after every host route, each as a whole or not at all."""
        return


ExtensionInstall: TypeAlias = Callable[[ExtensionRegistry, Mapping[str, Any]], None]
"""The entry point: a plain function that gets the registry and its own record's `config`."""

_Install = TypeVar("_Install", bound=ExtensionInstall)


def extension(*, api: str, name: str | None = None) -> Callable[[_Install], _Install]:
    """Return a decorator that marks `install` with the contract version it was written for.

    `api` is a dotted numeric string such as `"0.2"`; the host checks it when it loads the entry, not here.
    The function itself is returned, with `__deerflow_api__` and `__deerflow_name__` set.
    """

    def mark(install: _Install) -> _Install:
        # setattr: neither attribute is declared on a callable type.
        setattr(install, "__deerflow_api__", api)  # noqa: B010
        setattr(install, "__deerflow_name__", name)  # noqa: B010
        return install

    return mark
