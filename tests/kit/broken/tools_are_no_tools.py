"""A middleware whose tools are names."""

from deerflow_extension_api import MiddlewareContributor, MiddlewarePlacement, Placement
from langchain.agents.middleware import AgentMiddleware


class Searching(AgentMiddleware):
    tools = ("search",)


class Contributor(MiddlewareContributor):
    def contribute_middlewares(self, app_store, ctx):
        return [MiddlewarePlacement(Searching(), Placement.STANDARD)]


def install(registry, config):
    registry.middlewares(Contributor())
