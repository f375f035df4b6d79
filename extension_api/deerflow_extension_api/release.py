"""The policies that middlewares declare, for a record of what was released."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, runtime_checkable

WRAPPED_MIDDLEWARE_ATTRIBUTE: Final = "__deerflow_wrapped__"
"""The attribute by which a wrapper around a contributed middleware shows the one inside."""

_MOST_WRAPPERS = 16


@runtime_checkable
class ReleasePolicyProvider(Protocol):
    """A middleware that declares the parameters of its policy."""

    def release_policy_parameters(self) -> dict[str, Any]:
        """Return what decides how this middleware behaves, in values that JSON can hold."""
        return {}


def collect_release_policies(middlewares: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """Return what each declaring middleware declares, by class name: `Name`, `Name#2`, ... in order.

    Wrappers are looked through by their `__deerflow_wrapped__` attribute. A declaration that raises becomes
    `{"error": "<ExceptionType>"}`, one that is no mapping `{"error": "NonMappingDeclaration"}`.
    """
    policies: dict[str, dict[str, Any]] = {}
    counts: Counter[str] = Counter()
    for middleware in map(_unwrap, middlewares):
        declared = _declaration(middleware)
        if declared is None:
            continue
        name = type(middleware).__name__
        counts[name] += 1
        policies[name if counts[name] == 1 else f"{name}#{counts[name]}"] = declared
    return policies


def _unwrap(middleware: Any) -> Any:
    for _ in range(_MOST_WRAPPERS):
        try:
            inner = getattr(middleware, WRAPPED_MIDDLEWARE_ATTRIBUTE, None)
        except Exception:  # noqa: BLE001 - an attribute may run foreign code; what fails wraps nothing
            return middleware
        if inner is None:
            return middleware
        middleware = inner
    return middleware


def _declaration(middleware: Any) -> dict[str, Any] | None:
    try:
        declare = getattr(middleware, "release_policy_parameters", None)
        if declare is None:
            return None
        declared = declare()
        if inspect.iscoroutine(declared):
            declared.close()  # a declaration is synchronous; unawaited, it would only warn
        return dict(declared) if isinstance(declared, Mapping) else {"error": "NonMappingDeclaration"}
    except Exception as error:  # noqa: BLE001 - one extension's declaration must not hide the others
        return {"error": type(error).__name__}
