"""The package's README: its examples run, its tables are complete."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import deerflow_extension_api as api
import pytest
from deerflow_extension_api import (
    EXTENSION_PRINCIPAL_RESOLVER_KEY,
    ExtensionData,
    ExtensionPrincipal,
    ExtensionRegistry,
    ExtensionRuntimeDeps,
    Placement,
    RunEvidenceReader,
    RunPage,
    RunStatusView,
    TaskInfo,
    TaskOutcome,
)
from fastapi import FastAPI
from fastapi.testclient import TestClient

README = (Path(__file__).parents[2] / "extension_api" / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


class TwoPages(RunEvidenceReader):
    async def list_changed_runs(self, *, cursor: str | None, limit: int) -> RunPage:
        if cursor is None:
            return RunPage((RunStatusView(run_id="first"),), "next", has_more=True)
        return RunPage((RunStatusView(run_id="second"),), "last")


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run every Python block from top to bottom, as one module, and return its names."""
    module = ModuleType("readme")
    monkeypatch.setitem(sys.modules, "readme", module)  # dataclasses look their module up
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), vars(module))
    return vars(module)


async def test_the_audit_extension_notes_outcomes(names: dict[str, Any]) -> None:
    app_store, task_store = ExtensionData("app"), ExtensionData("run")
    (audit,) = names["registry"].lifecycles
    info = TaskInfo("run", "run", "thread", "lead")
    await audit.on_task_start(app_store, task_store, info)
    await audit.on_task_stop(app_store, task_store, info, TaskOutcome.COMPLETED)
    assert app_store.get(names["FinishedTasks"]).outcomes == {"run": TaskOutcome.COMPLETED}


def test_the_middleware_example_is_for_the_lead_only(names: dict[str, Any]) -> None:
    contribute = names["Counting"]().contribute_middlewares
    store = ExtensionData("app")
    (placed,) = contribute(store, api.AgentBuildContext(api.AgentScope.LEAD))
    assert placed.placement is Placement.MODEL_LOGICAL
    assert contribute(store, api.AgentBuildContext(api.AgentScope.SUBAGENT)) == ()


async def test_the_export_example_reads_every_page_and_serves_administrators(names: dict[str, Any]) -> None:
    await names["export"].start(ExtensionRuntimeDeps(run_evidence_reader=TwoPages()))
    app = FastAPI()
    app.include_router(names["router"])
    client = TestClient(app)
    assert client.get("/acme/runs").status_code == 403
    setattr(app.state, EXTENSION_PRINCIPAL_RESOLVER_KEY, lambda request: ExtensionPrincipal("a", True))
    assert client.get("/acme/runs").json() == ["first", "second"]


def test_every_registration_is_in_the_table() -> None:
    methods = [name for name in vars(ExtensionRegistry) if not name.startswith("_")]
    table = README[README.index("| `registry.`") : README.index("## Middlewares")]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == methods


def test_every_placement_is_in_the_table() -> None:
    table = README[README.index("| placement |") : README.index("## State")]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [place.name for place in Placement]


def test_the_page_promises_a_range_that_holds_this_version() -> None:
    assert "deerflow-extension-api>=0.2,<0.3" in README
    assert api.API_VERSION.startswith("0.2.")
