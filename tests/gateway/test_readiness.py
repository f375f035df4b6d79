"""Readiness follows the host's life: not before its services have started, and not once it is closing."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from deerflow_extension_api import ExtensionService
from support.gateways import SLOW, said
from support.hosts import scripted_config

from deerflow.extensions import services
from deerflow.gateway.app import create_app
from deerflow.gateway.process.serve import GatewayServer, server_config


async def test_slow_service_is_named_and_keeps_the_gateway_from_being_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    may_start = asyncio.Event()

    class Slow(ExtensionService):
        async def start(self, deps: Any) -> None:
            await may_start.wait()

    module: Any = ModuleType("acme")
    module.install = lambda registry, config: registry.service(Slow())
    monkeypatch.setitem(sys.modules, "acme", module)
    monkeypatch.setitem(services.start_services.__kwdefaults__, "warn_every_seconds", 0.01)
    app = create_app(scripted_config(tmp_path, plugins=[{"use": "acme:install"}]))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as client:
        lifespan = app.router.lifespan_context(app)
        with caplog.at_level(logging.WARNING):
            starting = asyncio.ensure_future(lifespan.__aenter__())
            while "acme:install: service start() has been running" not in caplog.text:
                assert (await client.get("/health/ready")).status_code == 503
                await asyncio.sleep(0.005)
        assert (await client.get("/health/live")).status_code == 200
        assert (await client.post("/threads", json={})).status_code == 503
        may_start.set()
        await starting
        assert (await client.get("/health/ready")).json() == {"status": "ok"}
        await lifespan.__aexit__(None, None, None)
        assert (await client.get("/health/ready")).status_code == 503


async def test_gateway_can_be_told_to_exit_while_a_service_starts_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    class Hanging(ExtensionService):
        async def start(self, deps: Any) -> None:
            told.append("start")
            server.should_exit = True  # as a signal does
            await asyncio.Event().wait()

        async def stop(self) -> None:
            told.append("stop")

    module: Any = ModuleType("acme")
    module.install = lambda registry, config: registry.service(Hanging())
    monkeypatch.setitem(sys.modules, "acme", module)
    app = create_app(scripted_config(tmp_path, plugins=[{"use": "acme:install"}]))
    server = GatewayServer(server_config(app, "127.0.0.1", 0))
    with pytest.raises(SystemExit):
        await server.startup()
    assert told == ["start", "stop"] and not server.started
    assert "told to exit before the start was over" in caplog.text
    assert "Traceback" not in caplog.text


async def test_closing_gateway_is_alive_and_not_ready(tmp_path: Path) -> None:
    app = create_app(scripted_config(tmp_path, [SLOW], shutdown={"drain_seconds": 0.2}))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as client:
        lifespan = app.router.lifespan_context(app)
        await lifespan.__aenter__()
        await client.post("/runs", json=said("slow"))
        closing = asyncio.ensure_future(lifespan.__aexit__(None, None, None))
        while app.state.host.runs.accepting:
            await asyncio.sleep(0)
        assert (await client.get("/health/ready")).status_code == 503
        assert (await client.get("/health/live")).status_code == 200
        await closing
