"""Was written for a patch that this host lacks."""

from deerflow_extension_api import API_VERSION, extension

major, minor, patch = API_VERSION.split(".")


@extension(api=f"{major}.{minor}.{int(patch) + 1}")
def install(registry, config):
    pass
