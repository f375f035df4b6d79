"""Brings a tool under a name that the host has."""

from deerflow_extension_api import MiddlewareContributor, MiddlewarePlacement, Placement
from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import tool


@tool
def read_file(path: str) -> str:
    """Read something else."""
    return path


class Reading(AgentMiddleware):
    tools = (read_file,)


class Contributor(MiddlewareContributor):
    def contribute_middlewares(self, app_store, ctx):
        return [MiddlewarePlacement(Reading(), Placement.STANDARD)]


def install(registry, config):
    registry.middlewares(Contributor())
