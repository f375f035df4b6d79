"""Contributions that record what they see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from deerflow_extension_api import (
    AgentBuildContext,
    ExtensionData,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
    TaskInfo,
    TaskLifecycleContributor,
    TaskOutcome,
    task_store_from_runtime,
)
from langchain.agents.middleware import AgentMiddleware

from deerflow.extensions import (
    LoadedExtensions,
    get_loaded_extensions,
    reset_loaded_extensions,
    set_loaded_extensions,
)


@dataclass
class Seen:
    """What one extension was told, in order."""

    events: list[tuple[str, str, str]] = field(default_factory=list)
    infos: list[TaskInfo] = field(default_factory=list)
    outcomes: dict[str, TaskOutcome] = field(default_factory=dict)
    stores: dict[str, ExtensionData] = field(default_factory=dict)
    model_stores: list[ExtensionData | None] = field(default_factory=list)
    tool_names: list[str] = field(default_factory=list)

    def forget(self) -> None:
        """Begin anew."""
        for kept in (self.events, self.infos, self.outcomes, self.stores, self.model_stores, self.tool_names):
            kept.clear()

    def kinds(self) -> list[str]:
        return [f"{hook} {kind}" for hook, kind, _ in self.events]


class Recorder(TaskLifecycleContributor):
    """Records task hooks."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen

    async def on_task_start(self, app_store: Any, task_store: ExtensionData, info: TaskInfo) -> None:
        self.seen.events.append(("start", info.kind, info.task_id))
        self.seen.infos.append(info)
        self.seen.stores[info.task_id] = task_store

    async def on_task_stop(
        self, app_store: Any, task_store: ExtensionData, info: TaskInfo, outcome: TaskOutcome
    ) -> None:
        self.seen.events.append(("stop", info.kind, info.task_id))
        self.seen.outcomes[info.task_id] = outcome
        assert self.seen.stores[info.task_id] is task_store


class _Watch(AgentMiddleware[Any, Any]):
    def __init__(self, seen: Seen) -> None:
        super().__init__()
        self.seen = seen

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self.seen.model_stores.append(task_store_from_runtime(request.runtime))
        return await handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        self.seen.tool_names.append(request.tool_call["name"])
        return await handler(request)


class Watching(MiddlewareContributor):
    """Contributes one recording middleware to every agent."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen

    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        return (MiddlewarePlacement(_Watch(self.seen), Placement.TOOL_VISIBLE),)


def recording(seen: Seen, *before: tuple[str, TaskLifecycleContributor]) -> LoadedExtensions:
    """A set with a recorder of hooks and calls, behind the given lifecycle contributors."""
    return LoadedExtensions(
        task_lifecycle=(*before, ("recorder:install", Recorder(seen))),
        middleware_contributors=(("recorder:install", Watching(seen)),),
    )


@contextmanager
def installed(loaded: LoadedExtensions) -> Iterator[LoadedExtensions]:
    """Make `loaded` the process-wide set for a while."""
    before = get_loaded_extensions()
    set_loaded_extensions(loaded)
    try:
        yield loaded
    finally:
        if before is get_loaded_extensions():
            reset_loaded_extensions()
        else:
            set_loaded_extensions(before)
