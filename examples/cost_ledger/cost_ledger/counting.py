"""Where model calls are seen: as they leave for the provider, and those of the host's own."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from deerflow_extension_api import (
    AgentBuildContext,
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
from langchain.agents.middleware import AgentMiddleware, ModelRequest

from cost_ledger.costs import TaskCost
from cost_ledger.ledger import BudgetWarning, Ledger

logger = logging.getLogger(__name__)

NOBODY = "local"
"""Who spends where the host has no users."""


class TaskCosts(TaskLifecycleContributor):
    """Opens the account of each task, and writes it into the ledger when the task has stopped."""

    async def on_task_start(
        self, app_store: ExtensionData, task_store: ExtensionData, info: TaskInfo
    ) -> None:
        task_store.set(TaskCost(run_id=info.run_id, task_id=info.task_id, user_id=NOBODY))

    async def on_task_stop(
        self, app_store: ExtensionData, task_store: ExtensionData, info: TaskInfo, outcome: TaskOutcome
    ) -> None:
        ledger, cost = app_store.get(Ledger), task_store.get(TaskCost)
        if ledger is None or cost is None:
            return
        try:
            await ledger.close_task(cost)
        finally:
            if info.kind == "lead":
                ledger.close_run(info.run_id)


class CountCosts(MiddlewareContributor):
    """Counts every request that a provider answers: repeated ones cost as well."""

    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        return (
            MiddlewarePlacement(CountModelCalls(app_store, ctx.model_name or ""), Placement.MODEL_PHYSICAL),
        )


class CountModelCalls(AgentMiddleware[Any, Any]):
    """Counts the calls of one agent. Warnings go to the log and to the stream of the run."""

    def __init__(self, app_store: ExtensionData, model_name: str) -> None:
        super().__init__()
        self._app_store = app_store
        self._model_name = model_name

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        response = handler(request)
        self._count(request, response)
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        response = await handler(request)
        self._count(request, response)
        return response

    def _count(self, request: ModelRequest[Any], response: Any) -> None:
        ledger, store = self._app_store.get(Ledger), task_store_from_runtime(request.runtime)
        cost = None if store is None else store.get(TaskCost)
        if ledger is None or cost is None:
            return
        context = request.runtime.context
        user_id = context.get("user_id") if isinstance(context, dict) else None
        ledger.assign(cost, user_id or NOBODY)
        for message in getattr(response, "result", [response]):
            for warning in _count_message(ledger, cost, self._model_name, message):
                request.runtime.stream_writer(warning.event())


class CountSystemCalls(SystemModelCallObserver):
    """Counts titles, summaries, goals and memory as their run's; those without a run as nobody's."""

    async def on_system_model_call(
        self,
        app_store: ExtensionData,
        task_store: ExtensionData,
        kind: SystemOperationKind,
        request: SystemModelRequest,
        result: SystemModelResult,
    ) -> None:
        ledger = app_store.get(Ledger)
        if ledger is None or result.response is None:
            return
        cost = task_store.get(TaskCost)
        if cost is not None:
            _count_message(ledger, cost, request.model_name or "", result.response)
            return
        alone = TaskCost(task_id=kind.value, user_id=NOBODY)
        _count_message(ledger, alone, request.model_name or "", result.response)
        await ledger.close_task(alone)


def _count_message(ledger: Ledger, cost: TaskCost, model_name: str, message: Any) -> Iterable[BudgetWarning]:
    usage = getattr(message, "usage_metadata", None)
    if usage is None:
        return ()
    provided = str(getattr(message, "response_metadata", {}).get("model_name") or "")
    warnings = ledger.count(cost, (model_name or provided, provided), usage)
    for warning in warnings:
        logger.warning("%s", _text(warning))
    return warnings


def _text(warning: BudgetWarning) -> str:
    told = warning.event()
    how = "is spent" if warning.is_spent else "is nearly spent"
    amounts = f"{told['spent']} of {told['limit']} {told['currency']}"
    return f"budget {warning.budget} of {warning.subject} {how}: {amounts}"
