"""An extension that knows nothing but the contract is installed from elsewhere, and does all it can do."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.databases import lasting_config, postgres_database, postgres_url
from support.extensions import installed
from support.gateways import GatewayClient, serving
from support.stepping import stepping_config

from deerflow.config import AppConfig
from deerflow.extensions import LoadedExtensions, TablePrefixes
from deerflow.gateway.app import create_app
from deerflow.persistence.autogenerate import autogenerate

__all__ = ["lasting_config", "postgres_database", "postgres_url"]

_SOURCE = Path(__file__).parents[1] / "support" / "outside_extension"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the extension was installed, from a folder of its own."""
    package, target = tmp_path_factory.mktemp("elsewhere") / "acme", tmp_path_factory.mktemp("site")
    shutil.copytree(_SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    done = subprocess.run(
        [*pip, "--disable-pip-version-check", "--target", str(target), str(package)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def config(
    site: Path, tmp_path: Path, lasting_config: AppConfig, monkeypatch: pytest.MonkeyPatch
) -> Iterator[AppConfig]:
    monkeypatch.syspath_prepend(str(site))
    plugin = {"use": "acme_ledger:install", "table_prefix": "acme_", "config": {"currency": "EUR"}}
    with installed(LoadedExtensions()):
        yield stepping_config(
            tmp_path,
            database=lasting_config.database.model_dump(),
            plugins=[{**plugin, "required": True}],
            shutdown={"drain_seconds": 0.01},
        )
    for name in [name for name in sys.modules if name.partition(".")[0] == "acme_ledger"]:
        del sys.modules[name]


async def _entries(client: GatewayClient) -> Any:
    response = await client.get("/acme/entries")
    assert response.status_code == 200, response.text
    return response.json()


async def test_it_keeps_its_tables_sees_every_task_and_serves_its_route(
    config: AppConfig, site: Path
) -> None:
    async with serving(create_app(config)) as client:
        assert Path(sys.modules["acme_ledger"].__file__ or "").is_relative_to(site)
        thread_id = await client.thread()
        run_id = await client.start(thread_id, uuid4().hex)
        await client.get(f"/threads/{thread_id}/runs/{run_id}/join")
        seen = await _entries(client)
        assert client.app.state.extension_diagnostics == []
    assert seen["for"] == "local"
    assert seen["statuses"] == ["success"]
    assert [_without_id(entry) for entry in seen["entries"]] == [
        _entry("call-1", "subagent", "completed", 3),
        _entry(run_id, "lead", "completed", 3),
    ]
    observed = seen["observed"]
    assert {
        key: observed[key] for key in ("title", "summarization", "assembly lead", "assembly subagent")
    } == {
        "title": 1,
        "summarization": 2,
        "assembly lead": 1,
        "assembly subagent": 1,
    }


async def test_a_second_life_finds_what_the_first_has_left(config: AppConfig) -> None:
    for life in (1, 2):
        async with serving(create_app(config)) as client:
            kinds = [entry["kind"] for entry in (await _entries(client))["entries"]]
            assert kinds == ["host"] * (life - 1)


async def test_the_hosts_migrations_leave_its_tables_alone(config: AppConfig, tmp_path: Path) -> None:
    async with serving(create_app(config)):
        pass
    disabled = [spec.model_copy(update={"enabled": False}) for spec in config.plugins]
    prefixes = TablePrefixes.declared_by(disabled).prefixes
    written = autogenerate(config.database_url or "", "nothing", tmp_path / "revisions", prefixes)
    assert "acme" not in written.read_text()
    unaware = autogenerate(config.database_url or "", "everything", tmp_path / "others")
    assert "drop_table('acme_entries')" in unaware.read_text().replace('"', "'")


def test_it_is_written_from_the_contract_alone() -> None:
    imported = set()
    for path in _SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            imported |= {name.partition(".")[0] for name in names}
    foreign = imported - set(sys.stdlib_module_names) - {"acme_ledger"}
    assert foreign == {"deerflow_extension_api", "langchain", "fastapi", "sqlalchemy", "alembic"}


def _without_id(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "id"}


def _entry(task_id: str, kind: str, outcome: str, model_calls: int) -> dict[str, Any]:
    return {
        "task_id": task_id,
        "kind": kind,
        "outcome": outcome,
        "model_calls": model_calls,
        "currency": "EUR",
    }
