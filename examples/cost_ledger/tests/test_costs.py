"""Amounts are exact, whatever is counted."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from cost_ledger.costs import Usage, cost_nanos, shown
from cost_ledger.options import Price, read_options


@pytest.mark.parametrize(
    ("metadata", "usage"),
    [
        (None, Usage()),
        ({"input_tokens": 10, "output_tokens": 5}, Usage(10, 0, 5)),
        ({"input_tokens": 10, "input_token_details": {"cache_read": 4}}, Usage(10, 4, 0)),
        ({"input_tokens": 3, "input_token_details": {"cache_read": 40}}, Usage(3, 3, 0)),
        ({"input_tokens": -1, "output_tokens": "many", "input_token_details": None}, Usage()),
    ],
)
def test_usage_is_read_as_far_as_it_is_sound(metadata: Any, usage: Usage) -> None:
    assert Usage.of(metadata) == usage


def test_cached_tokens_have_their_own_price_or_that_of_the_input() -> None:
    usage = Usage(input=1_000_000, cached=400_000, output=100_000)
    assert shown(cost_nanos(usage, Price(Decimal(2), Decimal(10), Decimal("0.5")))) == "2.4"
    assert shown(cost_nanos(usage, Price(Decimal(2), Decimal(10)))) == "3"
    assert cost_nanos(usage, None) == 0


def test_small_amounts_add_up_without_loss() -> None:
    price = Price(input=Decimal("0.15"))
    assert shown(sum(cost_nanos(Usage(input=1), price) for _ in range(1000))) == "0.00015"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"price": {}}, "config: price unknown; allowed: prices, currency, budgets, warn_at"),
        ({"prices": {"gpt": {"in": 1}}}, "prices.gpt: in unknown; allowed: input, cached_input, output"),
        ({"prices": {"gpt": {"input": "cheap"}}}, "prices.gpt.input: 'cheap' is not allowed"),
        ({"prices": {"gpt": {"input": True}}}, "prices.gpt.input: True is not allowed"),
        ({"prices": {"gpt": 3}}, "prices.gpt: 3 is not allowed; give a mapping"),
        ({"budgets": {"per_run": -1}}, "budgets.per_run: -1 is not allowed; give a number from 0"),
        ({"budgets": {"per_week": 1}}, "allowed: per_run, per_user_and_day"),
        ({"currency": "euro"}, "currency: 'euro' is not allowed"),
        ({"warn_at": 2}, "warn_at: 2 is not allowed"),
    ],
)
def test_a_wrong_option_is_refused_with_what_is_allowed(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as refused:
        read_options(config)
    assert said in str(refused.value)
