"""The classes that a manifest names: imported when they are used, checked when they are imported."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from axonx.components.base import BaseComponent
from axonx.components.job.outcome import failure_text
from axonx.components.registry import Key
from axonx.plugins.errors import PluginImportError, PluginTargetError
from axonx.plugins.packages import find_module
from axonx.task.identity import validate_registration_name

TASK_CATEGORY = "task"
_STEP_CATEGORY = "step"


@dataclass(frozen=True, slots=True)
class PluginTarget:
    """One entry of a manifest; `entry` is its path there, `target` is `module:Class`."""

    owner: str
    entry: str
    key: Key
    target: str

    def problem(self, path: Sequence[str] | None = None) -> str | None:
        """What can be said to be wrong without importing anything; `path` replaces `sys.path`."""
        category, name = self.key
        if self.entry.startswith("components.") and category in (_STEP_CATEGORY, TASK_CATEGORY):
            return str(self._no_component())
        if category == TASK_CATEGORY:
            try:
                validate_registration_name(name)
            except ValueError as error:
                return f"{self.entry}: {error}"
        module = self.target.partition(":")[0]
        if find_module(module, path) is None:
            return f"{self.entry}: module {module!r} of {self.target} cannot be found"
        return None

    def load(self) -> type:
        """The class. Raises `PluginImportError`, an `ImportError`, and `PluginTargetError`, a `TypeError`."""
        cls = self._import()
        if self.entry.startswith("tasks."):
            # The catalogue of Tasks checks the rest: Tasks are not imported for those who have none.
            if not isinstance(cls, type) or getattr(cls, "component_type", None) != TASK_CATEGORY:
                raise PluginTargetError(f"Task target must subclass BaseTask: {self._where()}")
            return cls
        if not isinstance(cls, type) or not issubclass(cls, BaseComponent):
            raise self._no_component()
        if cls.component_type != self.key[0]:
            raise PluginTargetError(
                f"Component target {self.target} declares type {cls.component_type!r}, "
                f"expected {self.key[0]!r} (plugin {self.owner!r}, {self.entry})"
            )
        return cls

    def _import(self) -> object:
        module, _, qualname = self.target.partition(":")
        try:
            found: object = attrgetter(qualname)(importlib.import_module(module))
        except (Exception, SystemExit) as error:
            raise PluginImportError(f"{self._where()} cannot be imported: {failure_text(error)}") from error
        return found

    def _no_component(self) -> PluginTargetError:
        advice = {
            _STEP_CATEGORY: "; give Steps to Application(providers=...)",
            TASK_CATEGORY: "; name Tasks under tasks",
        }.get(self.key[0], "")
        return PluginTargetError(f"Component target must subclass BaseComponent: {self._where()}{advice}")

    def _where(self) -> str:
        return f"{self.target} (plugin {self.owner!r}, {self.entry})"
