"""Are the hooks of an extension of the form in which the host calls them? They are not called to find out."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Final

from deerflow_extension_api import (
    AgentAssemblyObserver,
    ContextCompactionObserver,
    ExtensionService,
    SystemModelCallObserver,
    TaskLifecycleContributor,
)

from deerflow.extensions import LoadedExtensions
from deerflow.extensions.diagnostics import type_name
from deerflow.kit.check_report import Finding

_HOOKS: Final[tuple[tuple[str, type, tuple[str, ...]], ...]] = (
    ("task_lifecycle", TaskLifecycleContributor, ("on_task_start", "on_task_stop")),
    ("system_model_observers", SystemModelCallObserver, ("on_system_model_call",)),
    ("context_compaction_observers", ContextCompactionObserver, ("on_context_compacted",)),
    ("agent_assembly_observers", AgentAssemblyObserver, ("on_agent_assembled",)),
    ("services", ExtensionService, ("start", "stop")),
)


def inspect_hooks(extensions: LoadedExtensions) -> Iterator[Finding]:
    """Yield what the host could not call, and what it could not await."""
    for kind, protocol, hooks in _HOOKS:
        for _, contribution in getattr(extensions, kind):
            for hook in hooks:
                yield from _inspect(contribution, hook, getattr(protocol, hook))


def _inspect(contribution: Any, hook: str, declared: Any) -> Iterator[Finding]:
    name = f"{type_name(contribution)}.{hook}"
    try:
        method = getattr(contribution, hook, None)
        signature = inspect.signature(method) if callable(method) else None
    except Exception:  # noqa: BLE001 - reading an attribute may run any code of the extension
        yield Finding("error", f"{name} cannot be read")
        return
    if signature is None:
        return
    wanted = ", ".join(inspect.signature(declared).parameters)
    try:
        signature.bind(*wanted.split(", ")[1:])
    except TypeError:
        yield Finding("error", f"{name} takes {signature}; the host calls {hook}({wanted})")
    if not inspect.isroutine(method):
        return  # an object that is callable: only calling it would tell
    is_async = inspect.iscoroutinefunction(method)
    if inspect.iscoroutinefunction(declared) and not is_async:
        yield Finding(
            "warning", f"{name} is a plain function, but the host awaits it; define it with async def"
        )
    if not inspect.iscoroutinefunction(declared) and is_async:
        yield Finding("error", f"{name} is async, but the host does not await it; define it with def")
