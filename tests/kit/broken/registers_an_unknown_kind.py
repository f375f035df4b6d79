"""Was written for a registry that this host does not have."""


def install(registry, config):
    registry.tools([])
