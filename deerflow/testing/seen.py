"""What was seen of runs from inside the host, by contributions that only look on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from deerflow_extension_api import (
    AgentAssemblyDescriptor,
    AgentAssemblyObserver,
    AgentBuildContext,
    CompactionEvent,
    ContextCompactionObserver,
    ExtensionData,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
    SystemModelCallObserver,
    SystemModelRequest,
    SystemModelResult,
    SystemOperationKind,
    TaskInfo,
    TaskLifecycleContributor,
    TaskOutcome,
    task_store_from_runtime,
)
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AnyMessage

from deerflow.extensions import LoadedExtensions

WITNESS: Final = "deerflow.testing:witness"


@dataclass(frozen=True)
class SeenTask:
    """One agent execution. `store` is its task store, with what the extension kept there.

    `model_calls` counts every request to the provider, repeated ones too; `tool_calls` are the names of the
    tools that were run, in order of their start. `outcome` is None where the task never stopped.
    """

    info: TaskInfo
    store: ExtensionData
    outcome: TaskOutcome | None = None
    model_calls: int = 0
    tool_calls: tuple[str, ...] = ()


@dataclass(frozen=True)
class SeenSystemCall:
    """One model call of the host's own; `scope_id` is that of the store which observers were given."""

    kind: SystemOperationKind
    scope_id: str
    request: SystemModelRequest
    result: SystemModelResult


@dataclass(frozen=True)
class SeenRun:
    """One run that has ended.

    `status` is `success`, `error` or `interrupted`; `error` the text of a failure; `events` what a client
    read, as `(name, data)`; `tasks` the lead first, then subagents as they started.
    """

    run_id: str
    thread_id: str
    status: str
    answer: str
    error: str | None
    stop_reason: str | None
    messages: tuple[AnyMessage, ...]
    events: tuple[tuple[str, Any], ...]
    tasks: tuple[SeenTask, ...]

    @property
    def lead(self) -> SeenTask:
        """The lead's execution."""
        return next(task for task in self.tasks if task.info.kind == "lead")

    @property
    def subagents(self) -> tuple[SeenTask, ...]:
        """The executions of subagents, as they started."""
        return tuple(task for task in self.tasks if task.info.kind == "subagent")


@dataclass(eq=False)
class Witness(
    TaskLifecycleContributor,
    SystemModelCallObserver,
    ContextCompactionObserver,
    AgentAssemblyObserver,
    MiddlewareContributor,
):
    """Looks on, as the first contribution of every kind and next to model and tools."""

    system_calls: list[SeenSystemCall] = field(default_factory=list)
    compactions: list[CompactionEvent] = field(default_factory=list)
    assemblies: list[AgentAssemblyDescriptor] = field(default_factory=list)
    model_is_asked: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: dict[int, SeenTask] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def watch(self, extensions: LoadedExtensions) -> LoadedExtensions:
        """Return the set with this witness in front."""
        own = ((WITNESS, self),)
        return replace(
            extensions,
            middleware_contributors=(*own, *extensions.middleware_contributors),
            task_lifecycle=(*own, *extensions.task_lifecycle),
            system_model_observers=(*own, *extensions.system_model_observers),
            agent_assembly_observers=(*own, *extensions.agent_assembly_observers),
            context_compaction_observers=(*own, *extensions.context_compaction_observers),
        )

    def tasks_of(self, run_id: str) -> tuple[SeenTask, ...]:
        """What was seen of one run's executions, the lead first."""
        with self._lock:
            return tuple(task for task in self._tasks.values() if task.info.run_id == run_id)

    async def on_task_start(
        self, app_store: ExtensionData, task_store: ExtensionData, info: TaskInfo
    ) -> None:
        with self._lock:
            self._tasks[id(task_store)] = SeenTask(info, task_store)

    async def on_task_stop(
        self, app_store: ExtensionData, task_store: ExtensionData, info: TaskInfo, outcome: TaskOutcome
    ) -> None:
        self._change(task_store, lambda task: replace(task, outcome=outcome))

    async def on_system_model_call(
        self,
        app_store: ExtensionData,
        task_store: ExtensionData,
        kind: SystemOperationKind,
        request: SystemModelRequest,
        result: SystemModelResult,
    ) -> None:
        self.system_calls.append(SeenSystemCall(kind, task_store.scope_id, request, result))

    async def on_context_compacted(
        self, app_store: ExtensionData, task_store: ExtensionData, event: CompactionEvent
    ) -> None:
        self.compactions.append(event)

    def on_agent_assembled(self, app_store: ExtensionData, descriptor: AgentAssemblyDescriptor) -> None:
        self.assemblies.append(descriptor)

    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        order = 2**31  # innermost of all at its placement
        return (
            MiddlewarePlacement(_SeeModelCalls(self), Placement.MODEL_PHYSICAL, order=order),
            MiddlewarePlacement(_SeeToolCalls(self), Placement.TOOL_RAW, order=order),
        )

    def model_called(self, store: ExtensionData | None) -> None:
        """Count a request as it leaves for the provider."""
        self._change(store, lambda task: replace(task, model_calls=task.model_calls + 1))
        self.model_is_asked.set()

    def tool_called(self, store: ExtensionData | None, name: str) -> None:
        """Note a tool that is about to run."""
        self._change(store, lambda task: replace(task, tool_calls=(*task.tool_calls, name)))

    def _change(self, store: ExtensionData | None, change: Callable[[SeenTask], SeenTask]) -> None:
        """Change what is known of a task. Stores tell tasks apart: ids of tool calls come again."""
        with self._lock:
            task = self._tasks.get(id(store))
            if task is not None:
                self._tasks[id(store)] = change(task)


class _SeeModelCalls(AgentMiddleware[Any, Any]):
    def __init__(self, witness: Witness) -> None:
        super().__init__()
        self._witness = witness

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        self._witness.model_called(task_store_from_runtime(request.runtime))
        return await handler(request)


class _SeeToolCalls(AgentMiddleware[Any, Any]):
    def __init__(self, witness: Witness) -> None:
        super().__init__()
        self._witness = witness

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        self._witness.tool_called(task_store_from_runtime(request.runtime), request.tool_call["name"])
        return await handler(request)
