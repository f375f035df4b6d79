"""A middleware whose state names a type that is nowhere."""

from deerflow_extension_api import MiddlewareContributor, MiddlewarePlacement, Placement
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import AgentState


class State(AgentState):
    notes: "list[Note]"  # noqa: F821


class Noting(AgentMiddleware):
    state_schema = State

    def before_model(self, state, runtime):
        return None


class Contributor(MiddlewareContributor):
    def contribute_middlewares(self, app_store, ctx):
        return [MiddlewarePlacement(Noting(), Placement.STANDARD)]


def install(registry, config):
    registry.middlewares(Contributor())
