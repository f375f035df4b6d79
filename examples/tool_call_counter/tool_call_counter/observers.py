"""One observer of each kind; each only counts."""

from __future__ import annotations

from deerflow_extension_api import (
    AgentAssemblyDescriptor,
    AgentAssemblyObserver,
    CompactionEvent,
    ContextCompactionObserver,
    ExtensionData,
    SystemModelCallObserver,
    SystemModelRequest,
    SystemModelResult,
    SystemOperationKind,
)

from tool_call_counter.counts import Totals


class SystemCallCount(SystemModelCallObserver):
    """Counts the host's own model calls by kind."""

    async def on_system_model_call(
        self,
        app_store: ExtensionData,
        task_store: ExtensionData,
        kind: SystemOperationKind,
        request: SystemModelRequest,
        result: SystemModelResult,
    ) -> None:
        app_store.get_or_init(Totals, Totals).observe(f"system call {kind.value}")


class CompactionCount(ContextCompactionObserver):
    """Counts compactions of a conversation."""

    async def on_context_compacted(
        self, app_store: ExtensionData, task_store: ExtensionData, event: CompactionEvent
    ) -> None:
        app_store.get_or_init(Totals, Totals).observe("compaction")


class AssemblyCount(AgentAssemblyObserver):
    """Counts assembled agents."""

    def on_agent_assembled(self, app_store: ExtensionData, descriptor: AgentAssemblyDescriptor) -> None:
        app_store.get_or_init(Totals, Totals).observe("assembly")
