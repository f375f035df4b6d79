"""When task stores are made, under which ids, and when they go."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deerflow_extension_api import (
    AgentAssemblyObserver,
    ContextCompactionObserver,
    ExtensionData,
    ExtensionService,
    MiddlewareContributor,
    SystemModelCallObserver,
    TaskInfo,
    TaskLifecycleContributor,
    TaskOutcome,
)
from fastapi import APIRouter
from support import gate as gates
from support.extensions import installed
from support.hosts import DELEGATE_TWICE, delegation, finished, scripted_host, start
from support.observers import Observed, observing
from support.stepping import stepping_config

from deerflow.extensions import LoadedExtensions, dispatch
from deerflow.host import HostOptions, open_host
from deerflow.runs.active import ActiveRun

_CHILD_IDS = ["call-1", "call-2"]


def _default(protocol: type) -> Any:
    """A contribution with the contract's defaults."""
    return type(protocol.__name__, (protocol,), {})()


_CANNOT_SEE_A_STORE: dict[str, Any] = {
    "nothing": {},
    "services": {"services": _default(ExtensionService)},
    "routers": {"routers": APIRouter()},
    "assembly observers": {"agent_assembly_observers": _default(AgentAssemblyObserver)},
    "all three": {
        "services": _default(ExtensionService),
        "routers": APIRouter(),
        "agent_assembly_observers": _default(AgentAssemblyObserver),
    },
}
_CAN_SEE_A_STORE: dict[str, Any] = {
    "middlewares": {"middleware_contributors": _default(MiddlewareContributor)},
    "task hooks": {"task_lifecycle": _default(TaskLifecycleContributor)},
    "system model observers": {"system_model_observers": _default(SystemModelCallObserver)},
    "compaction observers": {"context_compaction_observers": _default(ContextCompactionObserver)},
}


def _set(kinds: dict[str, Any]) -> LoadedExtensions:
    return LoadedExtensions(**{kind: (("acme:install", one),) for kind, one in kinds.items()})


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of all stores that are made, and the hooks of all notifications."""
    made: list[str] = []
    store_init, notification_init = ExtensionData.__init__, dispatch.Notification.__init__

    def noting_store(self: ExtensionData, scope_id: str) -> None:
        made.append(scope_id)
        store_init(self, scope_id)

    def noting_notification(self: dispatch.Notification, hook: str, *rest: Any, **more: Any) -> None:
        made.append(hook)
        notification_init(self, hook, *rest, **more)

    monkeypatch.setattr(ExtensionData, "__init__", noting_store)
    monkeypatch.setattr(dispatch.Notification, "__init__", noting_notification)
    return made


@pytest.mark.parametrize("kinds", _CANNOT_SEE_A_STORE.values(), ids=_CANNOT_SEE_A_STORE)
async def test_what_cannot_see_a_store_costs_a_run_nothing(
    tmp_path: Path, made: list[str], kinds: dict[str, Any]
) -> None:
    with installed(_set(kinds)) as loaded:
        options = HostOptions(services_of=loaded, owns_notification_loop=True, drain_seconds=0.0)
        async with scripted_host(tmp_path, [DELEGATE_TWICE], options) as host:
            made.clear()
            run = await finished(host, "delegate")
    assert made == []
    assert run.scope is not None and run.scope.task_store is None


@pytest.mark.parametrize("kinds", _CAN_SEE_A_STORE.values(), ids=_CAN_SEE_A_STORE)
async def test_one_contribution_that_can_see_a_store_gives_each_task_its_own(
    tmp_path: Path, made: list[str], kinds: dict[str, Any]
) -> None:
    with installed(_set(kinds)):
        async with scripted_host(tmp_path, [DELEGATE_TWICE]) as host:
            made.clear()
            run = await finished(host, "delegate")
    stores = [entry for entry in made if not entry.startswith("on_")]
    assert stores[0] == run.run_id
    assert sorted(stores[1:]) == _CHILD_IDS


async def test_calls_within_a_run_carry_its_store_and_each_compaction_a_new_one(
    tmp_path: Path, made: list[str]
) -> None:
    observed = Observed()
    with installed(observing(observed)) as loaded:
        options = HostOptions(services_of=loaded, owns_notification_loop=True, drain_seconds=0.0)
        async with open_host(stepping_config(tmp_path), options) as host:
            made.clear()
            run = await finished(host, "go")
    scopes = [entry for entry in made if not entry.startswith("on_")]
    assert sorted(scopes) == sorted([run.run_id, "call-1", "detached", "detached"])
    assert {(call.kind.value, call.store_id) for call in observed.calls} == {
        ("title", run.run_id),
        ("summarization", run.run_id),
        ("summarization", "call-1"),
    }
    assert observed.compaction_stores == ["detached", "detached"]


class _Keeper(TaskLifecycleContributor):
    """Looks at each store without keeping it."""

    def __init__(self) -> None:
        self.stores: dict[str, weakref.ref[ExtensionData]] = {}
        self.alive_at_stop: list[str] = []

    async def on_task_start(self, app_store: Any, task_store: ExtensionData, info: TaskInfo) -> None:
        self.stores[info.task_id] = weakref.ref(task_store)

    async def on_task_stop(
        self, app_store: Any, task_store: ExtensionData, info: TaskInfo, outcome: TaskOutcome
    ) -> None:
        if self.stores[info.task_id]() is task_store:
            self.alive_at_stop.append(info.task_id)

    def alive(self) -> list[str]:
        gc.collect()
        return [task_id for task_id, store in self.stores.items() if store() is not None]


async def _in_a_moment(condition: Callable[[], bool]) -> None:
    """Wait, and let the event loop drop cancelled timers: behind live ones it keeps them."""
    limit = time.monotonic() + 30  # no timer of its own
    await asyncio.sleep(0)
    while not condition():
        assert time.monotonic() < limit
        await asyncio.sleep(0.01)
        await asyncio.sleep(0)


_ENDINGS = [
    {"when": "^child (one|two) fails", "turns": [{"error": "the model is down"}]},
    {"when": "^child (one|two) is slow", "turns": [{"delay_seconds": 30, "text": "never"}]},
    *(
        {
            "when": f"^{how}$",
            "turns": [
                {"tool_calls": [delegation(f"child one {how}", "c1"), delegation(f"child two {how}", "c2")]},
                {"text": "joined"} if how != "fails" else {"error": "the lead is down"},
            ],
        }
        for how in ("answers", "fails", "is slow")
    ),
]


@pytest.mark.parametrize("how", ["answers", "fails", "is slow"])
async def test_stores_are_dropped_after_on_task_stop_however_a_run_ends(tmp_path: Path, how: str) -> None:
    keeper = _Keeper()
    with installed(LoadedExtensions(task_lifecycle=(("keeper:install", keeper),))):
        async with scripted_host(tmp_path, _ENDINGS) as host:
            run: ActiveRun | None = await start(host, how)
            assert run is not None
            if how == "is slow":
                while len(keeper.stores) < 3:
                    await asyncio.sleep(0.001)
                run.stop("cancelled")
            await run.ended.wait()
            run = None
            await _in_a_moment(lambda: keeper.alive() == [])
            assert len(keeper.alive_at_stop) == len(keeper.stores) == 3


async def test_a_store_lives_as_long_as_its_task_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, opened = _Keeper(), asyncio.Event()
    monkeypatch.setattr(gates, "gate", opened)
    rules = [
        {
            "when": "^one after the other$",
            "turns": [
                {"tool_calls": [delegation("child", "c1")]},
                {"tool_calls": [{"name": "pass_gate", "args": {}}]},
                {"text": "joined"},
            ],
        }
    ]
    with installed(LoadedExtensions(task_lifecycle=(("keeper:install", keeper),))):
        async with scripted_host(tmp_path, rules, tools=[{"use": "support.gate:pass_gate"}]) as host:
            run = await start(host, "one after the other")
            await _in_a_moment(lambda: len(keeper.alive_at_stop) == 1)
            await _in_a_moment(lambda: keeper.alive() == [run.run_id])
            assert not run.ended.is_set()
            opened.set()
            await run.ended.wait()


async def test_many_runs_leave_no_store_and_no_asyncio_task_behind(tmp_path: Path) -> None:
    keeper = _Keeper()
    with installed(LoadedExtensions(task_lifecycle=(("keeper:install", keeper),))):
        async with scripted_host(tmp_path, [DELEGATE_TWICE]) as host:
            await finished(host, "delegate")
            before = len(asyncio.all_tasks())
            for _ in range(40):
                await finished(host, "delegate")
            await _in_a_moment(lambda: keeper.alive() == [] and len(asyncio.all_tasks()) <= before)
            assert len(keeper.stores) == 41 + len(_CHILD_IDS)
