"""Prices and budgets, as the extension's `config` names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

_PRICE_NAMES = ("input", "cached_input", "output")
_BUDGET_NAMES = ("per_run", "per_user_and_day")


@dataclass(frozen=True)
class Price:
    """What a million tokens cost, in the ledger's currency."""

    input: Decimal = Decimal(0)
    output: Decimal = Decimal(0)
    cached_input: Decimal | None = None


@dataclass(frozen=True)
class Budgets:
    """What may be spent, None where nothing limits it. Nobody is stopped: whoever passes one is told of."""

    per_run: Decimal | None = None
    per_user_and_day: Decimal | None = None


@dataclass(frozen=True)
class Options:
    """`prices` by the model's name, the configured or the provider's; budgets are warned of at `warn_at`."""

    prices: Mapping[str, Price] = field(default_factory=dict)
    currency: str = "USD"
    budgets: Budgets = Budgets()
    warn_at: Decimal = Decimal("0.8")


def read_options(config: Mapping[str, Any]) -> Options:
    """The checked options. `ValueError` names the field, its value, and what is allowed."""
    _known(config, "config", ("prices", "currency", "budgets", "warn_at"))
    prices = _mapping(config.get("prices"), "prices")
    budgets = _mapping(config.get("budgets"), "budgets")
    _known(budgets, "budgets", _BUDGET_NAMES)
    currency = config.get("currency", "USD")
    if not (isinstance(currency, str) and len(currency) == 3 and currency.isupper()):
        raise ValueError(f"currency: {currency!r} is not allowed; give a code such as 'EUR'")
    warn_at = _amount(config.get("warn_at", 0.8), "warn_at")
    if not 0 < warn_at <= 1:
        raise ValueError(f"warn_at: {warn_at} is not allowed; give a share above 0 and up to 1")
    return Options(
        prices={str(model): _price(price, f"prices.{model}") for model, price in prices.items()},
        currency=currency,
        budgets=Budgets(**{name: _amount(amount, f"budgets.{name}") for name, amount in budgets.items()}),
        warn_at=warn_at,
    )


def _price(value: Any, where: str) -> Price:
    named = _mapping(value, where)
    _known(named, where, _PRICE_NAMES)
    return Price(**{name: _amount(amount, f"{where}.{name}") for name, amount in named.items()})


def _amount(value: Any, where: str) -> Decimal:
    try:
        amount = None if isinstance(value, bool) else Decimal(str(value))
    except InvalidOperation:
        amount = None
    if amount is None or not amount.is_finite() or amount < 0:
        raise ValueError(f"{where}: {value!r} is not allowed; give a number from 0")
    return amount


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{where}: {value!r} is not allowed; give a mapping")
    return value


def _known(given: Mapping[str, Any], where: str, names: tuple[str, ...]) -> None:
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise ValueError(f"{where}: {', '.join(unknown)} unknown; allowed: {', '.join(names)}")
