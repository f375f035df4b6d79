"""Counts what the host tells of itself."""

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

from acme_ledger.ledger import Ledger


class Observations(SystemModelCallObserver, ContextCompactionObserver, AgentAssemblyObserver):
    """One observer of each kind."""

    async def on_system_model_call(
        self,
        app_store: ExtensionData,
        task_store: ExtensionData,
        kind: SystemOperationKind,
        request: SystemModelRequest,
        result: SystemModelResult,
    ) -> None:
        _note(app_store, kind.value)

    async def on_context_compacted(
        self, app_store: ExtensionData, task_store: ExtensionData, event: CompactionEvent
    ) -> None:
        _note(app_store, "compaction")

    def on_agent_assembled(self, app_store: ExtensionData, descriptor: AgentAssemblyDescriptor) -> None:
        _note(app_store, f"assembly {descriptor.namespace}")


def _note(app_store: ExtensionData, what: str) -> None:
    ledger = app_store.get(Ledger)
    if ledger is not None:
        ledger.observed[what] += 1
