"""An entry point below a class, written for a release without a patch."""

from deerflow_extension_api import ExtensionService, extension


class Service(ExtensionService):
    pass


class Extension:
    @staticmethod
    @extension(api="0.2.0")
    def install(registry, config):
        registry.service(Service())
