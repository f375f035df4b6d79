"""How a worker process finds a Task's class again: by `module:qualname`, with the paths it came from."""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import ModuleSpec
from operator import attrgetter

from axonx.task.base import BaseTask
from axonx.task.errors import TaskImportError


def importable_target(task_cls: type[BaseTask]) -> str:
    """`module:qualname` of a class that another process can import.

    Raises TaskImportError for a class of the main script, of a function's body, or of a module
    that exists in this process only.
    """
    module, qualname = task_cls.__module__, task_cls.__qualname__
    target = f"{module}:{qualname}"
    if module == "__main__":
        raise _refusal(target, "it is defined in the main script")
    if "<locals>" in qualname:
        raise _refusal(target, "it is defined inside a function")
    if _attribute_of(module, qualname) is not task_cls:
        raise _refusal(target, "its module has another object under that name")
    if not _can_be_found(module):
        raise _refusal(target, f"module {module!r} cannot be found on sys.path")
    return target


def load_target(target: str) -> type[BaseTask]:
    """The class that `importable_target` described. Raises TaskImportError, or what the module raises."""
    module, _, qualname = target.partition(":")
    importlib.import_module(module)
    task_cls = _attribute_of(module, qualname)
    if not isinstance(task_cls, type) or not issubclass(task_cls, BaseTask):
        raise TaskImportError(f"Task class {target} cannot be imported again: the module does not define it")
    return task_cls


def import_paths() -> list[str]:
    """The entries of `sys.path` that a new interpreter does not have by itself."""
    own = tuple(os.path.realpath(prefix) + os.sep for prefix in {sys.prefix, sys.base_prefix})
    absolute = dict.fromkeys(os.path.abspath(entry) for entry in sys.path)
    return [entry for entry in absolute if not os.path.realpath(entry).startswith(own)]


def _refusal(target: str, reason: str) -> TaskImportError:
    return TaskImportError(
        f"Task class {target} cannot run in a worker process: {reason}. "
        "Move it to the top level of an importable module, or run it with exec in this process"
    )


def _attribute_of(module: str, qualname: str) -> object:
    try:
        found: object = attrgetter(qualname)(sys.modules[module])
    except (KeyError, AttributeError):
        return None
    return found


def _can_be_found(module: str) -> bool:
    parent, _, _ = module.rpartition(".")
    if parent and parent not in sys.modules:
        return False
    search = getattr(sys.modules[parent], "__path__", None) if parent else None
    loaded = getattr(sys.modules[module], "__file__", None)
    for finder in sys.meta_path:
        find_spec = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = find_spec(module, search) if find_spec else None
        if spec is not None:
            found = spec.origin
            return loaded is None or (found is not None and _same_file(found, loaded))
    return False


def _same_file(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
