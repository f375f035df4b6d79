"""What a host with the ledger counts, keeps and warns of."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from deerflow.testing import (
    COMPACTION,
    DELEGATION,
    FLAKY_MODEL,
    LEAD,
    Scenario,
    ScriptedHost,
    SeenRun,
    assert_undisturbed,
)

OpenHost = Callable[..., ScriptedHost]
USE = "cost_ledger:install"
PRICES = {"scripted": {"input": 1, "output": 2}, "writer": {"output": 1_000_000}}
CONFIG = {"prices": PRICES, "currency": "EUR"}
NO_TITLE = {"title": {"enabled": False}}


@pytest.fixture
def database(tmp_path: Path) -> dict[str, str]:
    return {"backend": "sqlite", "url": f"sqlite:///{tmp_path / 'host.db'}"}


@pytest.fixture
def open_host(deerflow_host: OpenHost, database: dict[str, str]) -> OpenHost:
    def open_one(config: dict[str, Any] = CONFIG, **sections: Any) -> ScriptedHost:
        return deerflow_host(USE, config, database=database, **sections)

    return open_one


def get(host: ScriptedHost, path: str) -> Any:
    answer = host.request("GET", path)
    assert answer.status == 200, answer.text
    return answer.json()


def usage(run: SeenRun) -> dict[str, int]:
    counts: dict[str, int] = run.events[-1][1]["usage"]
    return counts


def priced(run: SeenRun) -> Decimal:
    """What the tokens cost that the host itself counted, at the prices of the model that answered."""
    tokens = usage(run)
    return (Decimal(tokens["input_tokens"]) + 2 * Decimal(tokens["output_tokens"])) / 1_000_000


def warnings(run: SeenRun) -> list[dict[str, Any]]:
    customs = [data for name, data in run.events if name == "custom"]
    return [data for data in customs if data["type"] == "cost_warning"]


@pytest.mark.parametrize("scenario", [LEAD, DELEGATION], ids=str)
def test_a_run_costs_what_its_agents_used(open_host: OpenHost, scenario: Scenario) -> None:
    host = open_host(**NO_TITLE)
    (run,) = host.play(scenario)
    found = get(host, f"/costs/runs/{run.run_id}")
    (model,) = found["models"]
    assert Decimal(found["cost"]) == priced(run) > 0
    assert (found["currency"], model["model"]) == ("EUR", "scripted")
    assert model["calls"] == sum(task.model_calls for task in run.tasks)
    assert host.problems == ()


def test_only_answered_attempts_are_counted(open_host: OpenHost) -> None:
    host = open_host({"prices": {"flaky": PRICES["scripted"]}}, **NO_TITLE)
    (run,) = host.play(FLAKY_MODEL)
    (model,) = get(host, f"/costs/runs/{run.run_id}")["models"]
    assert (model["model"], model["calls"]) == ("flaky", 1)


def test_the_hosts_own_calls_cost_as_well(open_host: OpenHost) -> None:
    host = open_host()
    (run,) = host.play(LEAD)
    found = get(host, f"/costs/runs/{run.run_id}")
    costs = {model["model"]: Decimal(model["cost"]) for model in found["models"]}
    assert costs["writer"] == 1  # one token of a title
    assert Decimal(found["cost"]) == sum(costs.values())


def test_a_model_without_a_price_is_named_once(open_host: OpenHost, caplog: Any) -> None:
    host = open_host({}, **NO_TITLE)
    for _ in range(2):
        (run,) = host.play(LEAD)
    assert get(host, f"/costs/runs/{run.run_id}")["cost"] == "0"
    said = [r.getMessage() for r in caplog.records if r.name == "cost_ledger.ledger"]
    assert said == ["model 'scripted' has no price: its calls are counted at 0; give prices.scripted"]


def test_a_budget_of_a_run_is_warned_of_twice_at_most(open_host: OpenHost, caplog: Any) -> None:
    (usual,) = open_host(**NO_TITLE).play(DELEGATION)
    limit = priced(usual) * Decimal("0.9")
    host = open_host({**CONFIG, "budgets": {"per_run": limit}, "warn_at": 0.01}, **NO_TITLE)
    (run,) = host.play(DELEGATION)
    told = [record.getMessage() for record in caplog.records if record.name == "cost_ledger.counting"]
    assert len(told) == 2
    assert told[0].startswith(f"budget per_run of {run.run_id} is nearly spent: 0.000")
    assert told[1].startswith(f"budget per_run of {run.run_id} is spent: 0.000")
    assert run.status == "success"


def test_a_warning_reaches_the_clients_of_the_run(open_host: OpenHost) -> None:
    host = open_host({**CONFIG, "budgets": {"per_run": "0.000001"}}, **NO_TITLE)
    (run,) = host.play(LEAD)
    (warning,) = warnings(run)
    assert Decimal(warning.pop("spent")) == priced(run)
    assert warning == {
        "type": "cost_warning",
        "budget": "per_run",
        "limit": "0.000001",
        "currency": "EUR",
        "exceeded": True,
    }


def test_a_users_day_goes_on_in_the_next_life(open_host: OpenHost) -> None:
    config = {**CONFIG, "budgets": {"per_user_and_day": "0.001"}}
    spent = Decimal(0)
    for _ in range(2):
        host = open_host(config, **NO_TITLE)
        (run,) = host.play(LEAD)
        spent += priced(run)
        budget = get(host, "/costs/budget")
        assert (Decimal(budget["spent"]), budget["limit"]) == (spent, "0.001")
        assert Decimal(budget["left"]) == Decimal("0.001") - spent
        host.close()
    (day,) = get(open_host(config), "/costs/days")["items"]
    assert (day["user_id"], day["model"], Decimal(day["cost"])) == ("local", "scripted", spent)


def test_without_a_database_it_counts_and_keeps_nothing(deerflow_host: OpenHost) -> None:
    host = deerflow_host(USE, CONFIG, **NO_TITLE)
    (run,) = host.play(LEAD)
    assert Decimal(get(host, "/costs/budget")["spent"]) == priced(run)
    assert host.request("GET", f"/costs/runs/{run.run_id}").status == 503
    assert host.problems == ()


@pytest.mark.parametrize("scenario", [DELEGATION, FLAKY_MODEL, COMPACTION], ids=str)
def test_no_run_is_disturbed(scenario: Scenario, database: dict[str, str]) -> None:
    assert_undisturbed(USE, scenario, CONFIG, database=database)
