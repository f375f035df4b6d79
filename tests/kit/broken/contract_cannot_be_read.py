"""A version marker that raises when it is read."""


class Install:
    @property
    def __deerflow_api__(self):
        raise LookupError("gone")

    def __call__(self, registry, config):
        pass


install = Install()
