"""What extensions cost while a host was open, hook by hook, told at its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

from deerflow.extensions.diagnostics import logger
from deerflow.extensions.outcomes import HookOutcome, listen_to_outcomes


@dataclass
class HookCost:
    """What one hook of one extension has cost so far."""

    calls: int = 0
    failures: int = 0
    seconds: float = 0.0


class HookCosts:
    """The hooks that have run, by entry point and hook; safe from any thread."""

    def __init__(self) -> None:
        self._costs: dict[tuple[str, str], HookCost] = {}
        self._lock = Lock()

    def add(self, outcome: HookOutcome) -> None:
        """Count one call."""
        key = (outcome.source, outcome.hook)
        with self._lock:
            cost = self._costs.get(key)
            if cost is None:
                cost = self._costs[key] = HookCost()
            cost.calls += 1
            cost.failures += outcome.failed
            cost.seconds += outcome.seconds

    def tell(self) -> None:
        """Write one line for each hook, extension by extension, the dearest hook first."""
        with self._lock:
            costs = sorted(self._costs.items(), key=lambda item: (item[0][0], -item[1].seconds))
        for (source, hook), cost in costs:
            logger.info(
                "Extension %s: %s: calls %d, failures %d, time %.3f s",
                *(source, hook, cost.calls, cost.failures, cost.seconds),
            )


@contextmanager
def costs_told() -> Iterator[None]:
    """Count the hooks that run in this process during the block, and tell at its end what they cost."""
    costs = HookCosts()
    release = listen_to_outcomes(costs.add)
    try:
        yield
    finally:
        release()
        costs.tell()
