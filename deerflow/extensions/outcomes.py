"""Who wants to count how the hooks of extensions end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from deerflow.extensions.diagnostics import logger


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """How one call of a hook ended. `source` is the extension's entry point, `hook` the name in the contract.

    `seconds` is what the hook took; `span_seconds` also has what it stood around, a model call say.
    """

    source: str
    hook: str
    seconds: float
    failed: bool
    span_seconds: float


OutcomeListener: TypeAlias = Callable[[HookOutcome], None]
"""Called as soon as a hook has ended; quick, on any thread."""

_listeners: list[OutcomeListener] = []


def listen_to_outcomes(listener: OutcomeListener) -> Callable[[], None]:
    """Tell `listener` of every hook that ends from now on; calling what is returned ends that."""
    _listeners.append(listener)

    def release() -> None:
        if listener in _listeners:
            _listeners.remove(listener)

    return release


def record_outcome(
    source: str, hook: str, seconds: float, *, failed: bool, span_seconds: float | None = None
) -> None:
    """Tell every listener how one hook ended."""
    if not _listeners:
        return
    outcome = HookOutcome(source, hook, seconds, failed, seconds if span_seconds is None else span_seconds)
    for listener in tuple(_listeners):
        try:
            listener(outcome)
        except Exception:  # noqa: BLE001 - a counter that fails must not fail what it counts
            logger.exception("a listener to hook outcomes failed")
