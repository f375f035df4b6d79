"""Declares something that is no version."""


def install(registry, config):
    pass


install.__deerflow_api__ = 0.2
