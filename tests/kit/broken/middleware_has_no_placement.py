"""A middleware without a place."""

from deerflow_extension_api import MiddlewareContributor
from langchain.agents.middleware import AgentMiddleware


class Contributor(MiddlewareContributor):
    def contribute_middlewares(self, app_store, ctx):
        return [AgentMiddleware()]


def install(registry, config):
    registry.middlewares(Contributor())
