"""Extensions in a Gateway: what failing leaves, what operators are told, what belongs to which app."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import httpx
import pytest
from deerflow_extension_api import ExtensionRegistry, MiddlewarePlacement, Placement
from fastapi import APIRouter
from langchain.agents.middleware import AgentMiddleware
from sqlalchemy import text
from starlette.responses import PlainTextResponse
from support.gateways import serving
from support.stepping import stepping_config

from deerflow import host
from deerflow.errors import ConfigError
from deerflow.extensions import get_loaded_extensions, services
from deerflow.gateway.app import create_app


class Everything:
    """One of every kind that notes what is called; `faults` names the hooks that raise."""

    def __init__(self, name: str, *faults: str) -> None:
        self.name = name
        self.faults = faults
        self.calls: list[str] = []

    def register(self, registry: ExtensionRegistry) -> None:
        registry.middlewares(self)  # type: ignore[arg-type]
        registry.task_lifecycle(self)  # type: ignore[arg-type]
        registry.system_model_observer(self)  # type: ignore[arg-type]
        registry.agent_assembly_observer(self)  # type: ignore[arg-type]
        registry.context_compaction_observer(self)  # type: ignore[arg-type]
        registry.service(self)  # type: ignore[arg-type]
        registry.routers([self._router()])

    def contribute_middlewares(self, app_store: Any, ctx: Any) -> Any:
        self._act("contribute_middlewares")
        placed = [MiddlewarePlacement(_Acting(self), Placement.STANDARD)]
        return [*placed, "no placement"] if "placement" in self.faults else placed

    async def on_task_start(self, *arguments: Any) -> None:
        self._act("on_task_start")

    async def on_task_stop(self, *arguments: Any) -> None:
        self._act("on_task_stop")

    async def on_system_model_call(self, *arguments: Any) -> None:
        self._act("on_system_model_call")

    async def on_context_compacted(self, *arguments: Any) -> None:
        self._act("on_context_compacted")

    def on_agent_assembled(self, *arguments: Any) -> None:
        self._act("on_agent_assembled")

    async def start(self, deps: Any) -> None:
        self._act("start")

    async def stop(self) -> None:
        self._act("stop")

    def _router(self) -> APIRouter:
        router = APIRouter()
        path = "/threads/search" if "router" in self.faults else f"/everything/{self.name}"
        router.add_api_route(path, lambda: PlainTextResponse(self.name), methods=["POST"])
        return router

    def _act(self, hook: str) -> None:
        self.calls.append(hook)
        if hook in self.faults:
            raise RuntimeError(f"{hook} is broken")


class _Acting(AgentMiddleware[Any, Any]):
    def __init__(self, owner: Everything) -> None:
        super().__init__()
        self._owner = owner

    async def abefore_agent(self, state: Any, runtime: Any) -> None:
        self._owner._act("before_agent")

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self._owner._act("wrap_model_call")
        return await handler(request)


Entry = Callable[..., dict[str, Any]]


@pytest.fixture
def entry(monkeypatch: pytest.MonkeyPatch) -> Entry:
    """Make a record of an extension that registers `everything`, and may fail after that."""
    module: Any = ModuleType("acme")
    monkeypatch.setitem(sys.modules, "acme", module)

    def make(everything: Everything, *, fails: bool = False) -> dict[str, Any]:
        def install(registry: ExtensionRegistry, config: Any) -> None:
            everything.register(registry)
            if fails:
                raise RuntimeError("no licence")

        setattr(module, everything.name, install)
        return {"use": f"acme:{everything.name}"}

    return make


def _config(home: Path, *plugins: dict[str, Any], **sections: Any) -> Any:
    return stepping_config(home, plugins=list(plugins), shutdown={"drain_seconds": 0.01}, **sections)


async def _run(client: Any) -> None:
    state = await client.say(await client.thread(), uuid4().hex)
    assert state["messages"][-1]["content"].startswith("lead: ")


_EVERY_CALL = {
    "start",
    "contribute_middlewares",
    "on_agent_assembled",
    "on_task_start",
    "before_agent",
    "wrap_model_call",
    "on_system_model_call",
    "on_context_compacted",
    "on_task_stop",
    "stop",
}


async def test_failed_install_leaves_nothing_of_any_kind_and_spoils_nobody(
    tmp_path: Path, entry: Entry, caplog: pytest.LogCaptureFixture
) -> None:
    first, dead, last = Everything("first"), Everything("dead"), Everything("last")
    app = create_app(_config(tmp_path, entry(first), entry(dead, fails=True), entry(last)))
    async with serving(app) as client:
        await _run(client)
        assert (await client.post("/everything/dead")).status_code == 404
        assert (await client.post("/everything/first")).text == "first"
        assert (await client.post("/everything/last")).text == "last"
    assert dead.calls == []
    assert set(first.calls) == set(last.calls) == _EVERY_CALL
    [diagnostic] = app.state.extension_diagnostics
    assert (diagnostic.source, diagnostic.message) == ("acme:dead", "install() failed: no licence")
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert errors == ["Extension acme:dead: install() failed: no licence"]


_LISTED = {
    "placement": "middleware 2 of 2 from contribute_middlewares() was skipped: it is str, "
    "expected a MiddlewarePlacement",
    "contribute_middlewares": "contribute_middlewares() failed: contribute_middlewares is broken",
    "before_agent": "_Acting.abefore_agent failed and was skipped: before_agent is broken",
    "wrap_model_call": "_Acting.awrap_model_call failed and was skipped: wrap_model_call is broken",
    "router": "router rejected: POST /threads/search is already served by POST /threads/search of the host",
    "start": "service start() failed; continuing without it: start is broken",
    "stop": "service stop() failed; continuing shutdown: stop is broken",
}
_ONLY_LOGGED = (
    "on_task_start",
    "on_task_stop",
    "on_system_model_call",
    "on_context_compacted",
    "on_agent_assembled",
)


@pytest.mark.parametrize("fault", [*_LISTED, *_ONLY_LOGGED])
async def test_every_fault_is_logged_with_its_entry_and_those_of_hooks_and_observers_are_not_listed(
    tmp_path: Path, entry: Entry, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    app = create_app(_config(tmp_path, entry(Everything("clean")), entry(Everything("broken", fault))))
    async with serving(app) as client:
        await _run(client)
    listed = {(diagnostic.source, diagnostic.message) for diagnostic in app.state.extension_diagnostics}
    logged = {record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING}
    if fault in _LISTED:
        assert listed == {("acme:broken", _LISTED[fault])}
        assert logged == {f"Extension acme:broken: {_LISTED[fault]}"}
    else:
        assert listed == set()
        assert logged and all(line.startswith(f"Extension acme:broken: {fault} failed") for line in logged)


async def test_diagnostics_are_live_the_newest_thousand_and_not_served(tmp_path: Path, entry: Entry) -> None:
    app = create_app(_config(tmp_path, entry(Everything("broken", "before_agent"))))
    async with serving(app) as client:
        assert app.state.extension_diagnostics == []
        await _run(client)
        seen = app.state.extension_diagnostics
        for _ in range(500):
            seen.extend(seen[:1])
            seen.append(seen[0])
        assert len(seen) == 1000
        document = (await client.get("/openapi.json")).text
        assert "diagnostic" not in document


async def test_a_hook_that_fails_in_every_run_is_one_diagnostic(
    tmp_path: Path, entry: Entry, caplog: pytest.LogCaptureFixture
) -> None:
    app = create_app(_config(tmp_path, entry(Everything("broken", "before_agent"))))
    async with serving(app) as client:
        for _ in range(3):
            await _run(client)
    (diagnostic,) = app.state.extension_diagnostics
    assert diagnostic.message == _LISTED["before_agent"]
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert lines == [f"Extension acme:broken: {diagnostic.message}"] * diagnostic.count
    assert diagnostic.count >= 3


async def test_two_apps_share_nothing_but_the_set_of_new_runs(tmp_path: Path, entry: Entry) -> None:
    one, two = Everything("one", "before_agent"), Everything("two")
    first = create_app(_config(tmp_path / "a", {**entry(one), "table_prefix": "one_"}))
    second = create_app(_config(tmp_path / "b", {**entry(two), "table_prefix": "two_"}))
    assert get_loaded_extensions() is second.state.extensions
    assert first.state.extensions.table_prefixes.owns("one_x")
    assert not second.state.extensions.table_prefixes.owns("one_x")
    async with serving(first) as to_first, serving(second) as to_second:
        assert (one.calls, two.calls) == (["start"], ["start"])
        assert (await to_first.post("/everything/one")).text == "one"
        assert (await to_first.post("/everything/two")).status_code == 404
        assert (await to_second.post("/everything/one")).status_code == 404
        await _run(to_first)
        assert one.calls == ["start"], "the newest app decides for new runs"
        assert "on_task_stop" in two.calls
    assert one.calls == ["start", "stop"]
    assert two.calls[-1] == "stop"
    third = create_app(_config(tmp_path / "c"))
    assert third.state.extension_diagnostics == []
    assert not third.state.extensions.needs_task_store


class _Waiting:
    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()

    async def start(self, deps: Any) -> None:
        await self.may_go_on.wait()

    async def stop(self) -> None: ...


async def test_slow_start_is_named_and_keeps_the_host_unready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    waiting, module = _Waiting(), ModuleType("acme")
    vars(module)["slow"] = lambda registry, config: registry.service(waiting)
    monkeypatch.setitem(sys.modules, "acme", module)
    patient = partial(services.start_services, warn_every_seconds=0.02)
    monkeypatch.setattr(host, "start_services", patient)
    app = create_app(_config(tmp_path, {"use": "acme:slow"}))
    context = app.router.lifespan_context(app)
    starting = asyncio.create_task(context.__aenter__())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as client:
        async with asyncio.timeout(10):
            while "acme:slow: service start() has been running" not in caplog.text:
                await asyncio.sleep(0.005)
        assert (await client.get("/health/ready")).status_code == 503
        waiting.may_go_on.set()
        await starting
        assert (await client.get("/health/ready")).status_code == 200
    await context.__aexit__(None, None, None)


class _Reading:
    """Reads a table of the host's when it starts."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.policies: list[Any] = []

    async def start(self, deps: Any) -> None:
        async with deps.session_factory() as session:
            self.threads.append((await session.execute(text("SELECT count(*) FROM threads"))).scalar())
        await deps.run_evidence_reader.list_changed_runs(cursor=None, limit=1)
        self.policies.append(deps.policy)

    async def stop(self) -> None: ...


async def test_services_start_on_tables_that_are_there_new_or_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, module = _Reading(), ModuleType("acme")
    vars(module)["reading"] = lambda registry, config: registry.service(reading)
    monkeypatch.setitem(sys.modules, "acme", module)
    sections = {
        "database": {"backend": "sqlite"},
        "token_budget": {"enabled": True, "max_tokens": 1234},
        "subagents": {"max_total_per_run": 5},
    }
    app = create_app(_config(tmp_path, {"use": "acme:reading"}, **sections))
    for _ in range(2):
        async with serving(app) as client:
            await client.thread()
    assert reading.threads == [0, 1]
    assert {(policy.max_total_tokens, policy.max_subagents_per_run) for policy in reading.policies} == {
        (1234, 5)
    }
    assert app.state.extension_diagnostics == []


async def test_configuration_that_shows_wrong_only_when_parts_are_built_leaves_no_service_running(
    tmp_path: Path, entry: Entry
) -> None:
    served = Everything("served")
    config = _config(tmp_path, entry(served), extensions={"middlewares": ["support.hosts:start"]})
    with pytest.raises(ConfigError, match="no AgentMiddleware class"):
        async with serving(create_app(config)):
            pass
    assert served.calls == []
