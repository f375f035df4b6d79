"""What one well-behaved contribution of each kind costs an embedded run with one system call."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deerflow_extension_api import (
    AgentAssemblyObserver,
    AgentBuildContext,
    ContextCompactionObserver,
    ExtensionData,
    ExtensionService,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
    SystemModelCallObserver,
    TaskLifecycleContributor,
)
from fastapi import APIRouter
from langchain.agents.middleware import AgentMiddleware

from deerflow.client import DeerFlowClient
from deerflow.config import config_from
from deerflow.extensions import LoadedExtensions, reset_loaded_extensions, set_loaded_extensions
from tests.bench.pairs import compare, show

_RULES = [{"when": "", "turns": [{"text": "echo: {prompt}"}]}]


class _Service(ExtensionService):
    pass


class _Tasks(TaskLifecycleContributor):
    pass


class _SystemCalls(SystemModelCallObserver):
    pass


class _Compactions(ContextCompactionObserver):
    pass


class _Assemblies(AgentAssemblyObserver):
    pass


class _WrapHooks(AgentMiddleware[Any, Any]):
    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


class _NodeHooks(AgentMiddleware[Any, Any]):
    async def abefore_model(self, state: Any, runtime: Any) -> None:
        pass

    async def aafter_model(self, state: Any, runtime: Any) -> None:
        pass


class _Contributor(MiddlewareContributor):
    def __init__(self, middleware: type[AgentMiddleware[Any, Any]]) -> None:
        self._middleware = middleware

    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        return (MiddlewarePlacement(self._middleware(), Placement.MODEL_LOGICAL),)


_KINDS: dict[str, dict[str, Any]] = {
    "services": {"services": _Service()},
    "routers": {"routers": APIRouter()},
    "assembly observers": {"agent_assembly_observers": _Assemblies()},
    "task hooks": {"task_lifecycle": _Tasks()},
    "system model observers": {"system_model_observers": _SystemCalls()},
    "compaction observers": {"context_compaction_observers": _Compactions()},
    "middlewares with wrap hooks": {"middleware_contributors": _Contributor(_WrapHooks)},
}
_NODES: dict[str, Any] = {"middleware_contributors": _Contributor(_NodeHooks)}


def _loaded(kinds: dict[str, Any]) -> LoadedExtensions:
    return LoadedExtensions(**{kind: (("bench:install", one),) for kind, one in kinds.items()})


def run(rounds: int = 60) -> None:
    """Print what each kind costs beside none, then one of each, then two node hooks."""
    with tempfile.TemporaryDirectory() as folder:
        model = {"name": "scripted", "use": "deerflow.models:ScriptedChatModel", "rules": _RULES}
        values = {"models": [model], "title": {"model_name": "scripted"}}
        with DeerFlowClient(config_from(values).based_in(Path(folder))) as client:

            def chat(loaded: LoadedExtensions) -> None:
                set_loaded_extensions(loaded)
                for event in client.stream("hello"):
                    last = event
                assert last.data["status"] == "success"

            def against_none(name: str, kinds: dict[str, Any], aim: str) -> None:
                loaded, none = _loaded(kinds), LoadedExtensions()
                show(name, compare(lambda: chat(loaded), lambda: chat(none), rounds=rounds), aim)

            against_none("embedded run with no contribution / the same", {}, "1.0")
            for name, kinds in _KINDS.items():
                against_none(f"embedded run with {name} / without", kinds, "-")
            each = {kind: one for kinds in _KINDS.values() for kind, one in kinds.items()}
            against_none("embedded run with one of each kind / with none", each, "<= 1.2")
            against_none("embedded run with two node hooks / without", _NODES, "-")
        reset_loaded_extensions()
