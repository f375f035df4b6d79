"""Who wants to count how the hooks of extensions end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from deerflow.extensions.diagnostics import logger

OutcomeListener: TypeAlias = Callable[[str, str, float, bool], None]
"""Called with the entry point, the hook, its seconds, and whether it failed; quick, on any thread."""

_listeners: list[OutcomeListener] = []


def listen_to_outcomes(listener: OutcomeListener) -> Callable[[], None]:
    """Tell `listener` of every hook that ends from now on; calling what is returned ends that."""
    _listeners.append(listener)

    def release() -> None:
        if listener in _listeners:
            _listeners.remove(listener)

    return release


def record_outcome(source: str, hook: str, seconds: float, *, failed: bool) -> None:
    """Tell every listener how one hook ended."""
    for listener in tuple(_listeners):
        try:
            listener(source, hook, seconds, failed)
        except Exception:  # noqa: BLE001 - a counter that fails must not fail what it counts
            logger.exception("a listener to hook outcomes failed")
