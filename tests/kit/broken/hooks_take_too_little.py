"""Hooks that cannot be called."""

from deerflow_extension_api import ExtensionService, TaskLifecycleContributor


class Hooks(TaskLifecycleContributor):
    async def on_task_stop(self, app_store, task_store, info):
        pass


class Service(ExtensionService):
    async def start(self):
        pass


def install(registry, config):
    registry.task_lifecycle(Hooks())
    registry.service(Service())
