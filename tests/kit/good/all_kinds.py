"""One contribution of each kind, with state, a marker and a configuration."""

from collections.abc import Sequence
from typing import Any

from deerflow_extension_api import (
    AgentAssemblyObserver,
    AgentScope,
    ContextCompactionObserver,
    ExtensionService,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
    SystemModelCallObserver,
    TaskLifecycleContributor,
    extension,
)
from fastapi import APIRouter
from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import tool


@tool
def acme_lookup(text: str) -> str:
    """Look something up."""
    return text


class Looking(AgentMiddleware[Any, Any]):
    tools = (acme_lookup,)

    async def awrap_tool_call(self, request, handler):
        return await handler(request)


class Plain(AgentMiddleware[Any, Any]):
    def before_model(self, state, runtime):
        return None


class Contributions(
    TaskLifecycleContributor,
    SystemModelCallObserver,
    ContextCompactionObserver,
    AgentAssemblyObserver,
    ExtensionService,
    MiddlewareContributor,
):
    async def on_task_stop(self, app_store, task_store, info, outcome, *, more=None):
        pass

    async def on_system_model_call(self, *arguments):
        pass

    async def on_context_compacted(self, app_store, task_store, event):
        pass

    def on_agent_assembled(self, app_store, descriptor):
        pass

    async def start(self, deps):
        pass

    def contribute_middlewares(self, app_store, ctx) -> Sequence[MiddlewarePlacement]:
        lead_only = MiddlewarePlacement(Plain(), Placement.STANDARD, AgentScope.LEAD, order=-1)
        return (MiddlewarePlacement(Looking(), Placement.TOOL_RAW), lead_only)


router = APIRouter(prefix="/acme/{item}")


@router.get("")
def acme(item: str):
    return {"item": item}


@extension(api="0.2", name="all kinds")
def install(registry, config):
    contributions = Contributions()
    registry.task_lifecycle(contributions)
    registry.system_model_observer(contributions)
    registry.context_compaction_observer(contributions)
    registry.agent_assembly_observer(contributions)
    registry.service(contributions)
    registry.middlewares(contributions)
    registry.routers([router])
