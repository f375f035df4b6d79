"""A middleware whose order is no number."""

from deerflow_extension_api import MiddlewareContributor, MiddlewarePlacement, Placement
from langchain.agents.middleware import AgentMiddleware


class Contributor(MiddlewareContributor):
    def contribute_middlewares(self, app_store, ctx):
        return [MiddlewarePlacement(AgentMiddleware(), Placement.STANDARD, order="first")]


def install(registry, config):
    registry.middlewares(Contributor())
