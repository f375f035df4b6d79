"""The cost ledger on both databases that last, with users and through a Gateway."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from support.databases import lasting_config, postgres_database, postgres_url
from support.examples import install_example
from support.extensions import installed
from support.gateways import said, serving
from support.hosts import DELEGATE_TWICE, scripted_config

from deerflow.config import AppConfig
from deerflow.extensions import LoadedExtensions
from deerflow.gateway.app import create_app
from deerflow.persistence import open_database

__all__ = ["lasting_config", "postgres_database", "postgres_url"]

CONFIG = {"prices": {"scripted": {"input": 1, "output": 2}}, "budgets": {"per_user_and_day": 1}}
PLUGIN = {"use": "cost_ledger:install", "required": True, "table_prefix": "costs_", "config": CONFIG}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    install_example("cost_ledger", target)
    return target


@pytest.fixture(autouse=True)
def _importable(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(site))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "cost_ledger"]:
        del sys.modules[name]


@pytest.fixture(autouse=True)
def _one_day(_importable: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """No midnight comes between two runs of a test."""
    day = datetime.now(UTC).date().isoformat()
    for name in ("ledger", "routes", "service"):
        monkeypatch.setattr(importlib.import_module(f"cost_ledger.{name}"), "today", lambda: day)


async def test_what_runs_cost_is_kept_and_summed(lasting_config: AppConfig, tmp_path: Path) -> None:
    config = scripted_config(
        tmp_path, [DELEGATE_TWICE], database=lasting_config.database.model_dump(), plugins=[PLUGIN]
    )
    with installed(LoadedExtensions()):
        async with serving(create_app(config)) as client:
            thread_id = await client.thread()
            costs = []
            for _ in range(2):
                run_id = await client.start(thread_id, "delegate")
                await client.get(f"/threads/{thread_id}/runs/{run_id}/join")
                costs.append((await client.get(f"/costs/runs/{run_id}")).json())
            budget = (await client.get("/costs/budget")).json()
            (day,) = (await client.get("/costs/days?days=2")).json()["items"]
            assert client.app.state.extension_diagnostics == []
    assert [cost["models"][0]["calls"] for cost in costs] == [4, 4]  # lead twice, two subagents once
    total = sum(Decimal(cost["cost"]) for cost in costs)
    assert Decimal(day["cost"]) == Decimal(budget["spent"]) == total > 0
    assert (day["calls"], day["model"]) == (8, "scripted")


async def test_a_days_budget_counts_what_other_processes_wrote(
    lasting_config: AppConfig, tmp_path: Path
) -> None:
    database = lasting_config.database.model_dump()
    config = scripted_config(tmp_path, database=database, plugins=[PLUGIN])
    with installed(LoadedExtensions()):
        async with serving(create_app(config)) as one:
            async with serving(create_app(config)) as other:
                await other.post("/runs/wait", json=said("hello"))
            spent = (await one.get("/costs/budget")).json()["spent"]
    assert Decimal(spent) > 0


async def test_several_processes_make_the_table_once(lasting_config: AppConfig) -> None:
    table = importlib.import_module("cost_ledger.table")

    async def one_process(_: int) -> None:
        async with open_database(lasting_config) as database:
            await table.CostTable(database.session_factory, "USD").create()

    async with open_database(lasting_config):
        await asyncio.gather(*map(one_process, range(4)))
