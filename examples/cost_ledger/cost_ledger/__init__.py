"""Counts what model calls cost, by run and by user, and warns before budgets are spent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deerflow_extension_api import ExtensionRegistry, extension

from cost_ledger.counting import CountCosts, CountSystemCalls, TaskCosts
from cost_ledger.options import read_options
from cost_ledger.routes import build_router
from cost_ledger.service import LedgerService

__all__ = ["install"]


@extension(api="0.2.1", name="cost ledger")
def install(registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
    """Register what counts, what stores, and the routes. For `config` see `cost_ledger.options.Options`."""
    options = read_options(config)
    registry.service(LedgerService(options))
    registry.task_lifecycle(TaskCosts())
    registry.middlewares(CountCosts())
    registry.system_model_observer(CountSystemCalls())
    registry.routers([build_router(options)])
