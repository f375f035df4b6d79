"""Observers that record what they are told of the host's own model calls and compactions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from deerflow_extension_api import (
    CompactionEvent,
    ContextCompactionObserver,
    ExtensionData,
    SystemModelCallObserver,
    SystemModelRequest,
    SystemModelResult,
    SystemOperationKind,
)

from deerflow.extensions import LoadedExtensions


@dataclass(frozen=True)
class SeenCall:
    store_id: str
    kind: SystemOperationKind
    request: SystemModelRequest
    result: SystemModelResult

    @property
    def answer(self) -> str:
        return str(self.result.response.text)

    @property
    def prompt(self) -> str:
        return str(self.request.messages[-1].text)


@dataclass
class Observed(SystemModelCallObserver, ContextCompactionObserver):
    """Records calls and compactions, with the ids of the stores that came with them."""

    calls: list[SeenCall] = field(default_factory=list)
    compactions: list[CompactionEvent] = field(default_factory=list)
    compaction_stores: list[str] = field(default_factory=list)

    async def on_system_model_call(
        self,
        app_store: ExtensionData,
        task_store: ExtensionData,
        kind: SystemOperationKind,
        request: SystemModelRequest,
        result: SystemModelResult,
    ) -> None:
        self.calls.append(SeenCall(task_store.scope_id, kind, request, result))

    async def on_context_compacted(
        self, app_store: ExtensionData, task_store: ExtensionData, event: CompactionEvent
    ) -> None:
        self.compactions.append(event)
        self.compaction_stores.append(task_store.scope_id)

    def of(self, kind: str) -> list[SeenCall]:
        """The calls of one kind."""
        return [call for call in self.calls if call.kind == kind]


def observing(observed: Observed, **others: Any) -> LoadedExtensions:
    """A set whose only contributions are this observer of both kinds, and the given ones."""
    own = (("observer:install", observed),)
    return LoadedExtensions(system_model_observers=own, context_compaction_observers=own, **others)
