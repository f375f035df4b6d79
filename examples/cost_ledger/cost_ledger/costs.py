"""What model calls cost: whole billionths of the currency, so that sums are exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from threading import Lock
from typing import Any, Final

from cost_ledger.options import Price

NANOS: Final = 1_000_000_000
_MILLION: Final = 1_000_000


@dataclass(frozen=True)
class Usage:
    """The tokens of one call; `cached` ones are among the input."""

    input: int = 0
    cached: int = 0
    output: int = 0

    @classmethod
    def of(cls, usage_metadata: Mapping[str, Any] | None) -> Usage:
        """LangChain's `usage_metadata`; what is missing or no count is taken as none."""
        found = usage_metadata or {}
        details = found.get("input_token_details") or {}
        tokens_in = _count(found.get("input_tokens"))
        cached = min(_count(details.get("cache_read")), tokens_in)
        return cls(tokens_in, cached, _count(found.get("output_tokens")))


def cost_nanos(usage: Usage, price: Price | None) -> int:
    """What a call costs; 0 where its model has no price."""
    if price is None:
        return 0
    cached_price = price.input if price.cached_input is None else price.cached_input
    amount = (
        (usage.input - usage.cached) * price.input + usage.cached * cached_price + usage.output * price.output
    )
    return int((amount * NANOS / _MILLION).to_integral_value())


def shown(nanos: int) -> str:
    """An amount as decimal text, exact, without an exponent: `0.0123`."""
    return f"{Decimal(nanos) / NANOS:f}"


@dataclass
class ModelTotal:
    """The calls of one model within one task."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    nanos: int = 0


@dataclass
class TaskCost:
    """What one task has cost so far, by model; kept in its task store. Parallel calls: hence the lock."""

    run_id: str = ""
    task_id: str = ""
    user_id: str = ""
    models: dict[str, ModelTotal] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def add(self, model: str, usage: Usage, nanos: int) -> None:
        """Count one call."""
        with self._lock:
            total = self.models.setdefault(model, ModelTotal())
            total.calls += 1
            total.input_tokens += usage.input
            total.output_tokens += usage.output
            total.nanos += nanos


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
