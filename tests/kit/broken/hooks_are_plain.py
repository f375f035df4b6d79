"""Hooks that cannot be awaited."""

from deerflow_extension_api import TaskLifecycleContributor


class Hooks(TaskLifecycleContributor):
    def on_task_start(self, app_store, task_store, info):
        pass


def install(registry, config):
    registry.task_lifecycle(Hooks())
