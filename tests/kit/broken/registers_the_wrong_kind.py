"""Mixes up two kinds."""

from deerflow_extension_api import ExtensionService


class Contribution(ExtensionService):
    pass


def install(registry, config):
    registry.task_lifecycle(Contribution())
