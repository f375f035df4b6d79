"""Was written for another line of the contract."""

from deerflow_extension_api import extension


@extension(api="0.99.0")
def install(registry, config):
    pass
