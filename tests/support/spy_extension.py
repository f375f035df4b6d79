"""An extension that writes what it sees to a file, for hosts that run in another process."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from deerflow_extension_api import (
    AgentBuildContext,
    ExtensionData,
    ExtensionRegistry,
    ExtensionRuntimeDeps,
    ExtensionService,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
    TaskInfo,
    TaskLifecycleContributor,
    TaskOutcome,
    extension,
    task_store_from_runtime,
)
from fastapi import APIRouter
from langchain.agents.middleware import AgentMiddleware


class Journal:
    """Lines of JSON, appended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()

    def write(self, **entry: Any) -> None:
        with self._lock, self._path.open("a") as file:
            file.write(json.dumps(entry) + "\n")


def read_journal(path: Path) -> list[dict[str, Any]]:
    """What was written so far; the host may be in the middle of a line."""
    written = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in written[: written.rfind("\n") + 1].splitlines()]


class _Tasks(TaskLifecycleContributor):
    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def on_task_start(self, app_store: Any, task_store: ExtensionData, info: TaskInfo) -> None:
        self._journal.write(
            event="start",
            kind=info.kind,
            task_id=info.task_id,
            run_id=info.run_id,
            parent=info.parent_task_id,
            scope=task_store.scope_id,
        )

    async def on_task_stop(
        self, app_store: Any, task_store: ExtensionData, info: TaskInfo, outcome: TaskOutcome
    ) -> None:
        self._journal.write(event="stop", kind=info.kind, task_id=info.task_id, outcome=outcome.value)


class _Service(ExtensionService):
    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def start(self, deps: ExtensionRuntimeDeps) -> None:
        self._journal.write(
            event="service start",
            session_factory=deps.session_factory is not None,
            evidence=deps.run_evidence_reader is not None,
        )

    async def stop(self) -> None:
        self._journal.write(event="service stop")


class _Watch(AgentMiddleware[Any, Any]):
    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        store = task_store_from_runtime(request.runtime)
        context = request.runtime.context or {}
        self._journal.write(
            event="model call",
            scope=None if store is None else store.scope_id,
            keys=sorted(key for key in context if not key.startswith("__")),
        )
        return await handler(request)


class _Watching(MiddlewareContributor):
    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        return (MiddlewarePlacement(_Watch(self._journal), Placement.MODEL_LOGICAL),)


def _router() -> APIRouter:
    router = APIRouter()

    @router.get("/spy")
    def spy() -> dict[str, bool]:
        return {"seen": True}

    return router


@extension(api="0.2.1")
def install(registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
    journal = Journal(Path(config["journal"]))
    registry.task_lifecycle(_Tasks(journal))
    registry.service(_Service(journal))
    registry.middlewares(_Watching(journal))
    registry.routers([_router()])
