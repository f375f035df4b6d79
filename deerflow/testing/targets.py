"""The hooks of an extension at which faults can be thrown, and how each is thrown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

from deerflow_extension_api import (
    AgentAssemblyObserver,
    AgentBuildContext,
    ContextCompactionObserver,
    ExtensionData,
    ExtensionService,
    MiddlewareContributor,
    MiddlewarePlacement,
    SystemModelCallObserver,
    TaskLifecycleContributor,
)
from langchain.agents.middleware import AgentMiddleware

from deerflow.config import AppConfig
from deerflow.extensions import LoadedExtensions
from deerflow.extensions.diagnostics import type_name
from deerflow.extensions.hook_names import NODE_HOOKS, WRAP_HOOKS, has_side
from deerflow.kit.middleware_check import build_contexts
from deerflow.testing.faults import (
    FAULTS,
    PLAIN_FAULTS,
    THREAD_FAULTS,
    Fault,
    FaultyContribution,
    Where,
    faulty_async,
    faulty_middleware,
    faulty_plain,
)
from deerflow.testing.scenarios import COMPACTION, DELEGATION, LEAD, Scenario

Throw: TypeAlias = Callable[[LoadedExtensions, Fault], LoadedExtensions]
Replacing: TypeAlias = Callable[[Any, str, Fault], FaultyContribution]


@dataclass(frozen=True)
class Target:
    """One hook. `throw` returns the set with a fault in its place; `scenario` is what calls it.

    Without a scenario it is the stop of a service, which is called by itself.
    """

    label: str
    hook: str
    faults: tuple[str, ...]
    throw: Throw
    scenario: Scenario | None = DELEGATION


@dataclass(frozen=True)
class _Kind:
    """The contributions of one field of a set, and their hooks."""

    field: str
    protocol: type
    hooks: tuple[str, ...]
    faults: tuple[str, ...]
    replacing: Replacing
    scenario: Scenario | None = DELEGATION


_KINDS: Final = (
    _Kind(
        "task_lifecycle", TaskLifecycleContributor, ("on_task_start", "on_task_stop"), FAULTS, faulty_async
    ),
    _Kind(
        "system_model_observers",
        SystemModelCallObserver,
        ("on_system_model_call",),
        FAULTS,
        faulty_async,
        LEAD,
    ),
    _Kind(
        "context_compaction_observers",
        ContextCompactionObserver,
        ("on_context_compacted",),
        FAULTS,
        faulty_async,
        COMPACTION,
    ),
    _Kind(
        "agent_assembly_observers",
        AgentAssemblyObserver,
        ("on_agent_assembled",),
        PLAIN_FAULTS,
        faulty_plain,
    ),
    _Kind(
        "middleware_contributors",
        MiddlewareContributor,
        ("contribute_middlewares",),
        PLAIN_FAULTS,
        faulty_plain,
    ),
    # The host waits for `start` without limit, so only what ends can be contained.
    _Kind("services", ExtensionService, ("start",), PLAIN_FAULTS, faulty_async),
    _Kind("services", ExtensionService, ("stop",), FAULTS, faulty_async, None),
)


def find_targets(extensions: LoadedExtensions) -> Iterator[Target]:
    """Yield every hook that the extension has of its own, those of its middlewares last."""
    for kind in _KINDS:
        for index, (_, contribution) in enumerate(getattr(extensions, kind.field)):
            for hook in kind.hooks:
                if _is_own(contribution, kind.protocol, hook):
                    label = f"{type_name(contribution)}.{hook}"
                    throw = partial(_throw_at_contribution, kind, index, hook)
                    yield Target(label, hook, kind.faults, throw, kind.scenario)
    yield from _middleware_targets(extensions)


def _is_own(contribution: Any, protocol: type, hook: str) -> bool:
    method = getattr(type(contribution), hook, None)
    return method is not getattr(protocol, hook) and callable(getattr(contribution, hook, None))


def _throw_at_contribution(
    kind: _Kind, index: int, hook: str, extensions: LoadedExtensions, fault: Fault
) -> LoadedExtensions:
    contributions = list(getattr(extensions, kind.field))
    source, contribution = contributions[index]
    contributions[index] = (source, kind.replacing(contribution, hook, fault))
    changed: dict[str, Any] = {kind.field: tuple(contributions)}
    return replace(extensions, **changed)


def _middleware_targets(extensions: LoadedExtensions) -> Iterator[Target]:
    for index, (_, contributor) in enumerate(extensions.middleware_contributors):
        seen: set[tuple[str, str]] = set()
        for context in build_contexts(AppConfig()).values():
            for middleware in _contributed(contributor, extensions.app_store, context):
                for side, where in _sides(middleware):
                    name = type_name(middleware)
                    if (name, f"{side} {where}") in seen:
                        continue
                    seen.add((name, f"{side} {where}"))
                    label = f"{name}.{side}" if where == "instead" else f"{name}.{side} {where} its handler"
                    throw = partial(_throw_at_middleware, index, name, side, where)
                    yield Target(label, side, _faults_of(side), throw)


def _contributed(
    contributor: Any, app_store: ExtensionData, context: AgentBuildContext
) -> Sequence[AgentMiddleware[Any, Any]]:
    """The middlewares that the host would accept, as far as they can be told without it."""
    try:
        placements = list(contributor.contribute_middlewares(app_store, context))
    except Exception:  # noqa: BLE001 - the run without a fault reports it
        return []
    return [
        placement.middleware
        for placement in placements
        if isinstance(placement, MiddlewarePlacement)
        and isinstance(placement.middleware, AgentMiddleware)
        and placement.scope & context.scope
    ]


def _sides(middleware: AgentMiddleware[Any, Any]) -> Iterator[tuple[str, Where]]:
    """The sides that an async run calls: the async one, else the plain one in a thread."""
    for hook in (*NODE_HOOKS, *WRAP_HOOKS):
        side = next((side for side in (f"a{hook}", hook) if has_side(middleware, side)), None)
        if side is None:
            continue
        if hook in NODE_HOOKS:
            yield side, "instead"
        else:
            yield side, "before"
            yield side, "after"


def _faults_of(side: str) -> tuple[str, ...]:
    is_plain = side in (*NODE_HOOKS, *WRAP_HOOKS)
    return THREAD_FAULTS if is_plain else FAULTS


def _throw_at_middleware(
    index: int, name: str, side: str, where: Where, extensions: LoadedExtensions, fault: Fault
) -> LoadedExtensions:
    contributors = list(extensions.middleware_contributors)
    source, contributor = contributors[index]

    def contribute(app_store: ExtensionData, ctx: AgentBuildContext) -> Sequence[MiddlewarePlacement]:
        return tuple(
            replace(placement, middleware=faulty_middleware(placement.middleware, side, where, fault))
            if type_name(placement.middleware) == name
            else placement
            for placement in contributor.contribute_middlewares(app_store, ctx)
        )

    faulty: Any = FaultyContribution(contributor, "contribute_middlewares", contribute)
    contributors[index] = (source, faulty)
    return replace(extensions, middleware_contributors=tuple(contributors))
