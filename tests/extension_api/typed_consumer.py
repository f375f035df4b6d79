"""An extension as someone outside writes it, from the contract alone; `mypy --strict` reads it.

Each `type: ignore` marks a mistake that the types must catch: strict mode refuses one that catches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from deerflow_extension_api import (
    AgentAssemblyDescriptor,
    AgentAssemblyObserver,
    AgentBuildContext,
    AgentScope,
    CompactionEvent,
    ContentKind,
    ContextCompactionObserver,
    ExtensionData,
    ExtensionInstall,
    ExtensionRegistry,
    ExtensionRuntimeDeps,
    ExtensionService,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
    ReleasePolicyProvider,
    RunEvidenceReader,
    RunPage,
    SystemModelCallObserver,
    SystemModelRequest,
    SystemModelResult,
    SystemOperationKind,
    TaskInfo,
    TaskLifecycleContributor,
    TaskOutcome,
    extension,
    provenance_kwargs,
    require_admin,
    resolve_principal,
    task_store_from_runtime,
)


@dataclass
class Seen:
    notes: list[str] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock, repr=False)

    def add(self, note: str) -> None:
        with self.lock:
            self.notes.append(note)


class Watcher(
    TaskLifecycleContributor, SystemModelCallObserver, ContextCompactionObserver, AgentAssemblyObserver
):
    """One object for four roles, each overridden in part or in whole."""

    async def on_task_stop(
        self, app_store: ExtensionData, task_store: ExtensionData, info: TaskInfo, outcome: TaskOutcome
    ) -> None:
        seen: Seen = app_store.get_or_init(Seen, Seen)
        seen.add(f"{info.kind} {info.task_id} {outcome.value}")

    async def on_system_model_call(
        self,
        app_store: ExtensionData,
        task_store: ExtensionData,
        kind: SystemOperationKind,
        request: SystemModelRequest,
        result: SystemModelResult,
    ) -> None:
        app_store.get_or_init(Seen, Seen).add(f"{kind} {len(request.messages)} {result.error is None}")

    async def on_context_compacted(
        self, app_store: ExtensionData, task_store: ExtensionData, event: CompactionEvent
    ) -> None:
        app_store.get_or_init(Seen, Seen).add(f"compacted {event.compacted_message_count}")

    def on_agent_assembled(self, app_store: ExtensionData, descriptor: AgentAssemblyDescriptor) -> None:
        app_store.get_or_init(Seen, Seen).add(descriptor.fingerprint)


class DuckContributor:
    """No subclass of anything, other parameter names."""

    def contribute_middlewares(
        self, store: ExtensionData, context: AgentBuildContext
    ) -> list[MiddlewarePlacement]:
        limit: int | None = context.policy.max_total_tokens
        return [MiddlewarePlacement(Budget(limit or 0), Placement.STANDARD, scope=AgentScope.LEAD, order=-1)]


@dataclass
class Budget:
    limit: int

    def release_policy_parameters(self) -> dict[str, Any]:
        return {"limit": self.limit}


class Exporter(ExtensionService):
    def __init__(self) -> None:
        self.pages: list[RunPage] = []

    async def start(self, deps: ExtensionRuntimeDeps) -> None:
        reader = deps.run_evidence_reader
        if reader is not None:
            self.pages.append(await reader.list_changed_runs(cursor=None, limit=10))


class NothingYet(MiddlewareContributor, TaskLifecycleContributor, ExtensionService, RunEvidenceReader):
    """Overrides nothing."""


@extension(api="0.2", name="typed")
def install(registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
    watcher = Watcher()
    registry.middlewares(DuckContributor())
    registry.task_lifecycle(watcher)
    registry.system_model_observer(watcher)
    registry.agent_assembly_observer(watcher)
    registry.context_compaction_observer(watcher)
    registry.service(Exporter())
    registry.routers([])


entry: ExtensionInstall = install
provider: ReleasePolicyProvider = Budget(1)
nothing: Sequence[MiddlewarePlacement] = NothingYet().contribute_middlewares(
    ExtensionData("app"), AgentBuildContext(AgentScope.BOTH)
)


def read_types(runtime: object, request: object) -> str:
    store = task_store_from_runtime(runtime)
    if store is None:
        return require_admin(request).user_id
    seen: Seen | None = store.remove(Seen)
    principal = resolve_principal(request)
    marks: dict[str, str] = provenance_kwargs(ContentKind.MEMORY, "typed")
    return f"{seen} {principal.roles if principal else ()} {marks}"


def make_mistakes(info: TaskInfo, store: ExtensionData, registry: ExtensionRegistry) -> None:
    info.task_id = "other"  # type: ignore[misc]
    TaskInfo("t", "r", "th", kind="leader")  # type: ignore[arg-type]
    MiddlewarePlacement(object(), "standard")  # type: ignore[arg-type]
    store.get_or_init(int, str)  # type: ignore[arg-type]
    store.get(Seen).add("x")  # type: ignore[union-attr]
    registry.service(DuckContributor())  # type: ignore[arg-type]
    extension("0.2")  # type: ignore[call-arg]
