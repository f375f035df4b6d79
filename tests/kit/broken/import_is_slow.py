"""Takes its time at import."""

import time

from deerflow_extension_api import TaskLifecycleContributor

time.sleep(0.3)


class Contribution(TaskLifecycleContributor):
    pass


def install(registry, config):
    registry.task_lifecycle(Contribution())
