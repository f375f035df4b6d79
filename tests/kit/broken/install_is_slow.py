"""Takes its time in its entry point."""

import time

from deerflow_extension_api import TaskLifecycleContributor


class Contribution(TaskLifecycleContributor):
    pass


def install(registry, config):
    time.sleep(0.3)
    registry.task_lifecycle(Contribution())
