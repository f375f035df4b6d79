"""How the host's part of a LangGraph server ends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from deerflow_extension_api import ExtensionRegistry
from support.hosts import scripted_config

from deerflow.extensions import LoadedExtensions, set_loaded_extensions
from deerflow.langgraph_server.state import DevServer


class _Service:
    def __init__(self, told: list[str]) -> None:
        self._told = told

    async def start(self, deps: Any) -> None:
        self._told.append("service started")

    async def stop(self) -> None:
        self._told.append("service stopped")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What happened, in order; `acme_dev:install` adds its service's start and stop."""
    happened: list[str] = []
    module: Any = ModuleType("acme_dev")

    def install(registry: ExtensionRegistry, config: Any) -> None:
        registry.service(_Service(happened))

    module.install = install
    monkeypatch.setitem(sys.modules, "acme_dev", module)
    yield happened
    set_loaded_extensions(LoadedExtensions())


def _server(home: Path, drain_seconds: float) -> DevServer:
    sections: dict[str, Any] = {"shutdown": {"drain_seconds": drain_seconds}}
    return DevServer(scripted_config(home, plugins=[{"use": "acme_dev:install"}], **sections))


async def _run(server: DevServer, told: list[str], release: asyncio.Event) -> None:
    async with server.execution("run-1"):
        told.append("run began")
        await release.wait()
        told.append("run ended")


async def test_services_stop_after_the_runs_that_were_under_way(tmp_path: Path, told: list[str]) -> None:
    server, release = _server(tmp_path, drain_seconds=60), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        async with server.lifespan():
            group.create_task(_run(server, told, release))
            while "run began" not in told:
                await asyncio.sleep(0)
            asyncio.get_running_loop().call_later(0.1, release.set)
    assert told == ["service started", "run began", "run ended", "service stopped"]


async def test_services_stop_in_the_end_although_a_run_goes_on(
    tmp_path: Path, told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    server, release = _server(tmp_path, drain_seconds=0.05), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        async with server.lifespan():
            group.create_task(_run(server, told, release))
            while "run began" not in told:
                await asyncio.sleep(0)
        assert told[-1] == "service stopped"
        assert "services stop although runs are under way: run-1" in caplog.text
        release.set()
    assert told[-1] == "run ended"


async def test_a_run_begins_when_the_services_are_up(tmp_path: Path, told: list[str]) -> None:
    server, release = _server(tmp_path, drain_seconds=60), asyncio.Event()
    release.set()
    async with asyncio.TaskGroup() as group:
        run = group.create_task(_run(server, told, release))
        await asyncio.sleep(0.02)
        assert told == []
        async with server.lifespan():
            await run
    assert told == ["service started", "run began", "run ended", "service stopped"]


async def test_a_server_can_serve_again(tmp_path: Path, told: list[str]) -> None:
    server, release = _server(tmp_path, drain_seconds=60), asyncio.Event()
    release.set()
    for _ in range(2):
        async with server.lifespan():
            await _run(server, told, release)
    assert told == ["service started", "run began", "run ended", "service stopped"] * 2


async def test_a_model_that_is_not_there_is_warned_of_at_the_start(
    tmp_path: Path, told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    config = scripted_config(tmp_path, models=[{"name": "gpt", "use": "not_there_at_all:Model"}])
    async with DevServer(config).lifespan():
        assert "models[0].use (model 'gpt'): 'not_there_at_all:Model' needs module" in caplog.text
