"""A contributor that fails for every agent."""

from deerflow_extension_api import MiddlewareContributor


class Contributor(MiddlewareContributor):
    def contribute_middlewares(self, app_store, ctx):
        raise KeyError("model")


def install(registry, config):
    registry.middlewares(Contributor())
