"""Starting with many extensions costs little more than starting with none."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from deerflow_extension_api import ExtensionRegistry, TaskLifecycleContributor
from support.gateways import answer, serving
from support.hosts import scripted_config

from deerflow.extensions import LoadedExtensions, set_loaded_extensions
from deerflow.gateway.app import create_app

MANY = 50


class _Hooks(TaskLifecycleContributor):
    starts = 0

    async def on_task_start(self, *arguments: Any) -> None:
        type(self).starts += 1


@pytest.fixture
def trivial(monkeypatch: pytest.MonkeyPatch) -> str:
    """The entry point of an extension that registers one task hook."""
    module: Any = ModuleType("acme_trivial")

    def install(registry: ExtensionRegistry, config: Any) -> None:
        registry.task_lifecycle(_Hooks())

    module.install = install
    monkeypatch.setitem(sys.modules, "acme_trivial", module)
    return "acme_trivial:install"


async def _started(home: Path, plugins: list[dict[str, Any]]) -> float:
    """The processor's seconds from the configuration to the first answer; others' work does not count."""
    config = scripted_config(home, database={"backend": "sqlite"}, plugins=plugins, title={"enabled": False})
    began = time.process_time()
    async with serving(create_app(config)) as client:
        assert len(client.app.state.extensions.task_lifecycle) == len(plugins)
        assert answer(await client.say(await client.thread(), "hello")) == "echo: hello"
        return time.process_time() - began


async def test_fifty_trivial_extensions_are_hardly_noticed(tmp_path: Path, trivial: str) -> None:
    try:
        await _started(tmp_path / "first", [])  # imports, and whatever else is done once
        without = await _started(tmp_path / "none", [])
        with_many = await _started(tmp_path / "many", [{"use": trivial}] * MANY)
    finally:
        set_loaded_extensions(LoadedExtensions())
    assert _Hooks.starts == MANY
    assert with_many - without < MANY * 0.03
