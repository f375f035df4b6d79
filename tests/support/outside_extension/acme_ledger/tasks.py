"""Counts the model calls of each task, and enters them when it stops."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
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

from acme_ledger.ledger import Ledger, ModelCalls


class CountModelCalls(AgentMiddleware[Any, Any]):
    """Counts decisions of the model."""

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        store = task_store_from_runtime(request.runtime)
        if store is not None:
            store.get_or_init(ModelCalls, ModelCalls).add()
        return await handler(request)


class CountingMiddlewares(MiddlewareContributor):
    """Contributes the counter to lead and subagents."""

    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        return (MiddlewarePlacement(CountModelCalls(), Placement.MODEL_LOGICAL),)


class TaskEntries(TaskLifecycleContributor):
    """One entry for each task that has stopped."""

    async def on_task_stop(
        self, app_store: ExtensionData, task_store: ExtensionData, info: TaskInfo, outcome: TaskOutcome
    ) -> None:
        ledger, calls = app_store.get(Ledger), task_store.get(ModelCalls)
        if ledger is not None:
            await ledger.write(
                task_id=info.task_id,
                kind=info.kind,
                outcome=outcome.value,
                model_calls=calls.count if calls else 0,
            )
