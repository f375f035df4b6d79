"""The stores in which extensions keep state, one for each scope of the host."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, Final, TypeVar

T = TypeVar("T")

EXTENSION_TASK_STORE_KEY: Final = "__deerflow_extension_task_store"
"""The key of a run's context under which the host puts the store of the live task."""


class ExtensionData:
    """Values of one scope, one for each exact type.

    A subclass is a key of its own, so extensions cannot collide unless they share a class. Any thread may use
    a store: every method holds one re-entrant lock. The values themselves are not locked.
    `scope_id` is `"app"`, a task's id, or `"detached"` for a notification without a live task.
    """

    def __init__(self, scope_id: str) -> None:
        self.scope_id: Final = scope_id
        self._lock = RLock()
        self._values: dict[type[Any], Any] = {}

    def get(self, typ: type[T]) -> T | None:
        """Return the value of exactly this type, or `None`."""
        with self._lock:
            value: T | None = self._values.get(typ)
            return value

    def get_or_init(self, typ: type[T], init: Callable[[], T]) -> T:
        """Return the value stored under `typ`, first storing what `init()` returns where there is none.

        `init` runs under the lock, so concurrent callers share one value: keep it cheap. What it raises
        travels on, and nothing is stored.
        """
        with self._lock:
            if typ not in self._values:
                created = init()
                # setdefault: an init that came back for the same type has handed that value out already.
                self._values.setdefault(typ, created)
            value: T = self._values[typ]
            return value

    def set(self, value: Any) -> None:
        """Store `value` under `type(value)`, in place of one that is there."""
        with self._lock:
            self._values[type(value)] = value

    def remove(self, typ: type[T]) -> T | None:
        """Take out and return the value of exactly this type, or `None`."""
        with self._lock:
            value: T | None = self._values.pop(typ, None)
            return value

    def __repr__(self) -> str:
        return f"{type(self).__name__}(scope_id={self.scope_id!r})"


def task_store_from_runtime(runtime: Any) -> ExtensionData | None:
    """Return the store of the live task, `None` where there is none. Never raises.

    `runtime` is a LangGraph `Runtime`, a `ToolRuntime`, or anything whose `context` is a mapping.
    """
    try:
        store = runtime.context.get(EXTENSION_TASK_STORE_KEY)
        return store if isinstance(store, ExtensionData) else None
    except Exception:  # noqa: BLE001 - anything may be handed in, and its attributes may run foreign code
        return None
