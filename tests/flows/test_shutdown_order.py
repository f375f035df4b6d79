"""How a Gateway ends: each step in its place, also when it is cancelled again and again meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from deerflow_extension_api import CompactionEvent, ExtensionRuntimeDeps, TaskInfo
from sqlalchemy import text
from support import gate as gates
from support.databases import lasting_config, postgres_database, postgres_url
from support.extensions import installed
from support.hosts import delegation, finished, scripted_config, start

from deerflow.config import AppConfig
from deerflow.errors import UnavailableError
from deerflow.extensions import (
    LoadedExtensions,
    NotificationLoop,
    get_loaded_extensions,
    notify_compaction,
)
from deerflow.gateway import app
from deerflow.host import Host, HostOptions, open_host
from deerflow.persistence import database
from deerflow.runs.memory import MemoryService
from deerflow.runs.service import RunService

__all__ = ["lasting_config", "postgres_database", "postgres_url"]

_RULES = [
    {"when": "<conversation>", "turns": [{"text": '{"facts": ["is here"]}'}]},
    {"when": "^child", "turns": [{"delay_seconds": 30, "text": "never"}]},
    {"when": "^delegate", "turns": [{"tool_calls": [delegation("child", "call-1")]}, {"text": "never"}]},
]
_EVENT = CompactionEvent("summarization", "1", (), "", 0, 0)
_STEPS = [
    "new runs are refused",
    "observations are dropped",
    "memory is flushed",
    "runs are drained",
    "on_task_stop subagent aborted",
    "on_task_stop lead aborted",
    "memory is flushed",
    "second service stops",
    "first service stops",
    "the notification loop is released",
    "engines close",
]


@dataclass
class Spy:
    """The steps in their order, with what could still be done during each."""

    steps: list[str] = field(default_factory=list)
    loops: set[Any] = field(default_factory=set)
    started: list[str] = field(default_factory=list)
    thread_id: str = ""
    host: Host | None = None
    deps: ExtensionRuntimeDeps | None = None

    async def on_task_start(self, app_store: Any, task_store: Any, info: TaskInfo) -> None:
        self.started.append(info.kind)

    async def on_task_stop(self, app_store: Any, task_store: Any, info: TaskInfo, outcome: Any) -> None:
        assert self.host is not None
        if self.host.runs.accepting:
            return
        self.loops.add(asyncio.get_running_loop())
        await self.ask_the_database()
        notify_compaction(get_loaded_extensions(), _EVENT)
        with pytest.raises(UnavailableError, match="shutting down"):
            await start(self.host, "late")
        self.steps.append(f"on_task_stop {info.kind} {outcome}")

    async def on_context_compacted(self, app_store: Any, task_store: Any, event: Any) -> None:
        self.steps.append("an observation was delivered during the shutdown")

    async def ask_the_database(self) -> None:
        """Engines close last: what extensions were given works until then."""
        assert self.deps is not None and self.deps.session_factory is not None
        async with self.deps.session_factory() as session:
            assert (await session.execute(text("SELECT 1"))).scalar() == 1
        await self.ask_the_evidence()

    async def ask_the_evidence(self) -> None:
        assert self.deps is not None and self.deps.run_evidence_reader is not None
        assert (await self.deps.run_evidence_reader.list_changed_runs(cursor=None, limit=5)).items


@dataclass
class _Service:
    spy: Spy
    name: str

    async def start(self, deps: ExtensionRuntimeDeps) -> None:
        self.spy.deps = deps

    async def stop(self) -> None:
        await self.spy.ask_the_database()
        self.spy.steps.append(f"{self.name} service stops")


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    """A spy also on what no extension sees; the calls themselves are made."""
    spy = Spy()

    def note(owner: Any, name: str, step: str, *, once: bool = False) -> None:
        original = getattr(owner, name)

        def noted(*arguments: Any, **named: Any) -> Any:
            if not (once and step in spy.steps):
                spy.steps.append(step)
            return original(*arguments, **named)

        monkeypatch.setattr(owner, name, noted)

    note(RunService, "stop_accepting", "new runs are refused", once=True)
    note(NotificationLoop, "stop_accepting", "observations are dropped", once=True)
    note(MemoryService, "flush", "memory is flushed")
    note(RunService, "drain", "runs are drained")
    note(NotificationLoop, "release", "the notification loop is released")
    note(database, "_close", "engines close")
    return spy


@pytest.fixture
def config(tmp_path: Path, lasting_config: AppConfig) -> AppConfig:
    storage = lasting_config.database.model_dump()
    return scripted_config(
        tmp_path, _RULES, database=storage, memory={"enabled": True}, shutdown={"drain_seconds": 0.1}
    )


@asynccontextmanager
async def _life(config: AppConfig, spy: Spy, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """The life of a Gateway; at its end a conversation waits to be remembered, and a subagent works."""
    own = (("spy:install", spy),)
    services = (("spy:install", _Service(spy, "first")), ("spy:install", _Service(spy, "second")))
    loaded = LoadedExtensions(task_lifecycle=own, context_compaction_observers=own, services=services)
    monkeypatch.setattr(app, "load_extensions", lambda specs: (loaded, loaded.diagnostics))
    with installed(LoadedExtensions()):
        gateway = app.create_app(config)
        async with gateway.router.lifespan_context(gateway):
            spy.host = gateway.state.host
            await finished(spy.host, "hello")
            spy.thread_id = (await start(spy.host, "delegate")).thread_id
            while "subagent" not in spy.started:
                await asyncio.sleep(0.001)
            spy.steps.clear()
            yield


async def test_each_step_has_its_place(
    config: AppConfig, spy: Spy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "deerflow.extensions")
    async with _life(config, spy, monkeypatch):
        pass
    assert spy.steps == _STEPS
    assert spy.loops == {asyncio.get_running_loop()}
    assert caplog.text.count("no longer accepted during shutdown") == 1
    with pytest.raises(Exception, match="closed"):
        await spy.ask_the_evidence()


async def test_cancelled_again_and_again_it_goes_through_every_step(
    config: AppConfig, spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = asyncio.Event()

    async def live() -> None:
        async with _life(config, spy, monkeypatch):
            ready.set()
            await asyncio.Event().wait()

    life = asyncio.create_task(live())
    await ready.wait()
    while not life.done():
        life.cancel()
        await asyncio.sleep(0.003)
    assert life.cancelled()
    assert spy.steps == _STEPS


async def test_runs_that_end_in_time_are_not_aborted(
    tmp_path: Path, spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = asyncio.Event()
    monkeypatch.setattr(gates, "gate", opened)
    rules = [
        {"when": "^child", "turns": [{"tool_calls": [{"name": "pass_gate", "args": {}}]}, {"text": "done"}]},
        {"when": "^delegate", "turns": [{"tool_calls": [delegation("child", "call-1")]}, {"text": "joined"}]},
    ]
    sections: dict[str, Any] = {
        "database": {"backend": "sqlite"},
        "shutdown": {"drain_seconds": 60},
        "tools": [{"use": "support.gate:pass_gate"}],
    }

    async def open_during_the_shutdown() -> None:
        while "runs are drained" not in spy.steps:
            await asyncio.sleep(0.001)
        opened.set()

    async with _life(scripted_config(tmp_path, rules, **sections), spy, monkeypatch):
        opening = asyncio.create_task(open_during_the_shutdown())
    await opening
    stops = [step for step in spy.steps if step.startswith("on_task_stop")]
    assert stops == ["on_task_stop subagent completed", "on_task_stop lead completed"]


async def test_the_last_checkpoint_is_written_before_its_store_closes(
    tmp_path: Path, lasting_config: AppConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = {"name": "list_files", "args": {}, "id": "call-1"}
    rules = [{"when": "^work", "turns": [{"tool_calls": [call]}, {"delay_seconds": 30, "text": "never"}]}]
    config = scripted_config(tmp_path, rules, database=lasting_config.database.model_dump())
    options = HostOptions(drain_seconds=0.01)
    thread_id = str(uuid4())
    async with open_host(config, options) as host:
        put, begun = host.checkpointer.aput, []

        async def put_slowly(*arguments: Any) -> Any:
            begun.append(arguments)
            await asyncio.sleep(0.3)
            return await put(*arguments)

        monkeypatch.setattr(host.checkpointer, "aput", put_slowly)
        run = await start(host, "work", thread_id=thread_id)
        while len(run.values.get("messages") or ()) < 3:
            await asyncio.sleep(0.001)
        assert begun
    assert run.ending is not None and run.ending.stop_reason == "shutdown"
    async with open_host(config, options) as host:
        after = await finished(host, "hello", thread_id=thread_id)
    assert [message.type for message in after.values["messages"]] == ["human", "ai", "tool", "human", "ai"]


@pytest.mark.parametrize(
    ("owner", "step", "said"),
    [
        (MemoryService, "flush", "flush memory"),
        (RunService, "drain", "drain runs"),
        (NotificationLoop, "drain", "drain observations"),
    ],
)
async def test_a_step_that_fails_keeps_no_service_running(
    tmp_path: Path,
    spy: Spy,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    owner: type,
    step: str,
    said: str,
) -> None:
    async def fail(*arguments: Any) -> None:
        raise RuntimeError("broken on purpose")

    rules = [{"when": "^child", "turns": [{"text": "done"}]}, _RULES[-1]]
    config = scripted_config(tmp_path, rules, database={"backend": "sqlite"}, memory={"enabled": True})
    async with _life(config, spy, monkeypatch):
        assert spy.host is not None
        while spy.host.runs.active_on(spy.thread_id):
            await asyncio.sleep(0.001)
        monkeypatch.setattr(owner, step, fail)
    assert f"shutdown: could not {said}" in caplog.text
    assert spy.steps[-4:] == _STEPS[-4:]
