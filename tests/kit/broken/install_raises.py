"""Refuses its configuration."""


def install(registry, config):
    raise ValueError("limit: 'x' is not allowed; write a number")
