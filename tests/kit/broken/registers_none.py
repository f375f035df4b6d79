"""Registers nothing at all, by name."""


def install(registry, config):
    registry.service(None)
