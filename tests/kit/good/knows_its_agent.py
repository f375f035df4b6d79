"""Contributes as its agent is, with a tool made anew for each."""

from deerflow_extension_api import AgentScope, MiddlewareContributor, MiddlewarePlacement, Placement
from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import tool


class Naming(AgentMiddleware):
    def __init__(self, name: str) -> None:
        super().__init__()

        @tool
        def own_name() -> str:
            """Say what this agent is called."""
            return name

        self.tools = [own_name]


class Contributor(MiddlewareContributor):
    def contribute_middlewares(self, app_store, ctx):
        name = f"{ctx.agent_name.title()} on {ctx.model_name.lower()}"
        if ctx.scope is AgentScope.LEAD:
            name += f", with {ctx.policy.max_subagents_per_run + 0} subagents"
        return [MiddlewarePlacement(Naming(name), Placement.STANDARD)]


def install(registry, config):
    registry.middlewares(Contributor())
