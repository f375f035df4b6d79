"""The audit trail on both databases that last, and with several writers."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from support.databases import lasting_config, postgres_database, postgres_url
from support.examples import install_example
from support.extensions import installed
from support.gateways import answer, said, serving
from support.hosts import DELEGATE_TWICE, scripted_config

from deerflow.config import AppConfig
from deerflow.extensions import LoadedExtensions
from deerflow.gateway.app import create_app
from deerflow.persistence import open_database

__all__ = ["lasting_config", "postgres_database", "postgres_url"]

PLUGIN = {"use": "audit_trail:install", "required": True, "table_prefix": "audit_", "config": {"key": "k"}}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    install_example("audit_trail", target)
    return target


@pytest.fixture(autouse=True)
def _importable(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(site))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "audit_trail"]:
        del sys.modules[name]


async def test_a_gateway_keeps_its_trail_through_two_lives(lasting_config: AppConfig, tmp_path: Path) -> None:
    config = scripted_config(
        tmp_path, [DELEGATE_TWICE], database=lasting_config.database.model_dump(), plugins=[PLUGIN]
    )
    for life in (1, 2):
        with installed(LoadedExtensions()):
            async with serving(create_app(config)) as client:
                response = await client.post("/runs/wait", json=said("delegate"))
                assert answer(response.json()).startswith("joined")
                entries = (await client.get("/audit/entries?limit=1000")).json()["items"]
                verification = (await client.get("/audit/verification")).json()
                assert client.app.state.extension_diagnostics == []
        assert [entry["seq"] for entry in entries] == list(range(1, 10 * life + 1))
        assert verification["intact"] and verification["entries"] == 10 * life
        assert {entry["run_id"] for entry in entries if entry["event"] == "tool_called"} <= {
            entry["task_id"] for entry in entries if entry["event"] == "task_started"
        }


async def test_several_processes_upgrade_and_append_to_one_chain(lasting_config: AppConfig) -> None:
    chain = importlib.import_module("audit_trail.chain")
    store_module = importlib.import_module("audit_trail.store")
    subject = importlib.import_module("audit_trail.subject").Subject("run", "thread", "task")

    async def one_process(number: int) -> None:
        async with open_database(lasting_config) as database:
            store = store_module.ChainStore(database.session_factory, b"key")
            await store.upgrade()
            for count in range(5):
                drafts = [chain.Draft.now("tool_called", subject, {"from": number, "count": count})] * 2
                await store.append(drafts)

    async with open_database(lasting_config) as database:
        await asyncio.gather(*map(one_process, range(4)))
        store = store_module.ChainStore(database.session_factory, b"key")
        verification = await store.verify()
        assert (verification.entries, verification.broken_at) == (40, None)
        for refused in ("UPDATE audit_entries SET event = 'x'", "DELETE FROM audit_entries"):
            with pytest.raises(DBAPIError, match="append-only"):
                await _execute(database.session_factory, refused)


async def _execute(sessions: Any, statement: str) -> None:
    async with sessions() as session, session.begin():
        await session.execute(text(statement))
