"""No marker, no base class, hooks that are callable objects; falsy on top."""


class Hook:
    async def __call__(self, *arguments):
        pass


class Hooks:
    def __init__(self):
        self.on_task_start = Hook()

    def __bool__(self):
        return False


class Entry:
    def __call__(self, registry, config):
        registry.task_lifecycle(Hooks())


install = Entry()
