"""Forgot to make an instance."""

from deerflow_extension_api import TaskLifecycleContributor


def install(registry, config):
    registry.task_lifecycle(TaskLifecycleContributor)
