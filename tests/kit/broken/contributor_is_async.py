"""A contributor that nobody awaits."""

from deerflow_extension_api import MiddlewareContributor


class Contributor(MiddlewareContributor):
    async def contribute_middlewares(self, app_store, ctx):
        return ()


def install(registry, config):
    registry.middlewares(Contributor())
