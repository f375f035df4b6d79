"""Keeps a ledger of every task in tables of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deerflow_extension_api import ExtensionRegistry, extension

from acme_ledger.observing import Observations
from acme_ledger.routes import build_router
from acme_ledger.service import LedgerService
from acme_ledger.tasks import CountingMiddlewares, TaskEntries

__all__ = ["install"]


@extension(api="0.2.1", name="acme ledger")
def install(registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
    """Register one of each kind; `config["currency"]` is written into every entry."""
    registry.service(LedgerService(config["currency"]))
    registry.middlewares(CountingMiddlewares())
    registry.task_lifecycle(TaskEntries())
    observations = Observations()
    registry.system_model_observer(observations)
    registry.context_compaction_observer(observations)
    registry.agent_assembly_observer(observations)
    registry.routers([build_router()])
