"""Needs what is not installed."""

import a_package_that_nobody_has  # noqa: F401


def install(registry, config):
    pass
