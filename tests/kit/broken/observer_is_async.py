"""An observer that nobody awaits."""

from deerflow_extension_api import AgentAssemblyObserver


class Observer(AgentAssemblyObserver):
    async def on_agent_assembled(self, app_store, descriptor):
        pass


def install(registry, config):
    registry.agent_assembly_observer(Observer())
