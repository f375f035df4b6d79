"""A place without a middleware."""

from deerflow_extension_api import MiddlewareContributor, MiddlewarePlacement, Placement


class Contributor(MiddlewareContributor):
    def contribute_middlewares(self, app_store, ctx):
        return [MiddlewarePlacement(object(), Placement.STANDARD)]


def install(registry, config):
    registry.middlewares(Contributor())
