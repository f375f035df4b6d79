"""Has an entry point that nobody awaits."""


async def install(registry, config):
    pass
