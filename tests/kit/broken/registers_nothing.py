"""Has nothing to offer."""


def install(registry, config):
    pass
