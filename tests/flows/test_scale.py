"""Many runs with delegations at once, stopped at any moment: each ends once, and nothing stays behind."""

from __future__ import annotations

import asyncio
import gc
import random
import weakref
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from deerflow_extension_api import ExtensionData, TaskInfo, TaskLifecycleContributor, TaskOutcome
from support import gate as gates
from support.extensions import installed
from support.hosts import answer, delegation, scripted_host, start

from deerflow.extensions import LoadedExtensions
from deerflow.host import Host
from deerflow.runs.active import ActiveRun
from deerflow.runs.record import RunStatus

TERMINAL = {"task_completed", "task_failed", "task_cancelled", "task_timed_out"}


@dataclass
class Census(TaskLifecycleContributor):
    """Counts the hooks of each task, how many subagents are alive, and keeps watch over task stores."""

    started: Counter[str] = field(default_factory=Counter)
    stopped: Counter[str] = field(default_factory=Counter)
    outcomes: dict[str, TaskOutcome] = field(default_factory=dict)
    stores: weakref.WeakSet[ExtensionData] = field(default_factory=weakref.WeakSet)
    alive: int = 0
    most_alive: int = 0

    async def on_task_start(self, app_store: Any, task_store: ExtensionData, info: TaskInfo) -> None:
        self.started[f"{info.run_id} {info.task_id}"] += 1
        self.stores.add(task_store)
        if info.kind == "subagent":
            self.alive += 1
            self.most_alive = max(self.most_alive, self.alive)

    async def on_task_stop(
        self, app_store: Any, task_store: ExtensionData, info: TaskInfo, outcome: TaskOutcome
    ) -> None:
        self.stopped[f"{info.run_id} {info.task_id}"] += 1
        self.outcomes[info.task_id] = outcome
        if info.kind == "subagent":
            self.alive -= 1

    def is_even(self) -> bool:
        return self.started == self.stopped and set(self.started.values()) <= {1}


def counting(census: Census) -> LoadedExtensions:
    return LoadedExtensions(task_lifecycle=(("census:install", census),))


def delegating(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"when": "^delegate", "turns": [{"tool_calls": list(calls)}, {"text": "joined"}]}


def events(run: ActiveRun) -> list[dict[str, Any]]:
    """All custom events of a run."""
    found, position = [], 0
    while batch := run.log.after(position):
        position = batch[-1].id or 0
        found.extend(event.data for event in batch if event.name == "custom")
    return found


def terminal_events(run: ActiveRun) -> Counter[str]:
    """How many ends were told of each execution."""
    return Counter(event["execution_id"] for event in events(run) if event["type"] in TERMINAL)


async def crowd(host: Host, count: int, *, at_once: int, dice: random.Random) -> Counter[str]:
    """Start `count` runs, `at_once` at a time, stop a third of them at random moments; how they ended."""
    room = asyncio.Semaphore(at_once)
    endings: Counter[str] = Counter()

    async def one(number: int) -> None:
        async with room:
            run = await start(host, "delegate", stream_modes=("custom",))
            if number % 3 == 0:
                await asyncio.sleep(dice.random() * 0.15)
                await host.runs.stop(run.run_id)
            await asyncio.wait_for(run.ended.wait(), 60)
            check_one(run)
            stored = await host.database.stores.runs.get(run.run_id)
            assert stored is not None and run.ending is not None
            assert stored.status == run.ending.status
            assert await host.runs.stop(run.run_id) is False
            endings[run.ending.status] += 1

    await asyncio.gather(*(one(number) for number in range(count)))
    return endings


def check_one(run: ActiveRun) -> None:
    names = [event.name for event in run.log.after(max(0, run.log.last_id - 1))]
    assert names == ["end"]
    begun = [event["execution_id"] for event in events(run) if event["type"] == "task_started"]
    assert terminal_events(run) == Counter(begun)


async def nothing_is_left(host: Host, census: Census, before: set[asyncio.Task[Any]]) -> None:
    assert census.is_even()
    assert census.alive == 0
    assert (host.assembler.capacity.running, host.assembler.capacity.queued) == (0, 0)
    assert await host.database.stores.runs.list_active() == []
    async with asyncio.timeout(10):
        while asyncio.all_tasks() - before:
            await asyncio.sleep(0.01)
    # A loop keeps cancelled timers, and a run's context with them, until their few seconds are over.
    async with asyncio.timeout(30):
        while census.stores:
            await asyncio.sleep(0.1)
            gc.collect()


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(1_000, id="thousand", marks=pytest.mark.timeout(900)),
        pytest.param(10_000, id="soak", marks=[pytest.mark.soak, pytest.mark.timeout(7200)]),
    ],
)
async def test_a_thousand_runs_with_delegations_a_third_of_them_stopped(tmp_path: Path, count: int) -> None:
    census = Census()
    dice = random.Random(count)
    rules = [delegating(delegation("one", "a")), {"when": "^one", "turns": [{"text": "done"}]}]
    sections: dict[str, Any] = {
        "subagents": {"max_running": 16, "max_queued": 1000},
        "title": {"enabled": False},
    }
    with installed(counting(census)):
        async with scripted_host(tmp_path, rules, **sections) as host:
            before = asyncio.all_tasks()
            endings = await crowd(host, count, at_once=50, dice=dice)
            await nothing_is_left(host, census, before)
    assert sum(endings.values()) == count
    assert set(endings) == {RunStatus.SUCCESS, RunStatus.INTERRUPTED}
    assert endings[RunStatus.SUCCESS] >= count - count // 3 - 1


HELD = {"when": "^held", "turns": [{"tool_calls": [{"name": "pass_gate", "args": {}}]}, {"text": "done"}]}


async def twelve_and_one(home: Path, max_running: int, opened: asyncio.Event) -> Census:
    """One run delegates twelve times; another then once, on its own thread. All end once all have asked."""
    census = Census()
    tools = [{"use": "support.gate:pass_gate"}]
    twelve = {
        "when": "^delegate many",
        "turns": [{"tool_calls": [delegation("held", f"many-{n}") for n in range(12)]}, {"text": "joined"}],
    }
    single = {
        "when": "^delegate one",
        "turns": [{"tool_calls": [delegation("held", "single")]}, {"text": "joined"}],
    }
    limits = {"max_running": max_running, "max_total_per_run": 12}
    with installed(counting(census)):
        async with scripted_host(home, [twelve, single, HELD], subagents=limits, tools=tools) as host:
            capacity = host.assembler.capacity
            many = await start(host, "delegate many")
            async with asyncio.timeout(30):
                while capacity.running + capacity.queued < 12:
                    await asyncio.sleep(0.002)
                one = await start(host, "delegate one")
                while capacity.running + capacity.queued < 13 or census.alive < max_running:
                    await asyncio.sleep(0.002)
            opened.set()
            await asyncio.gather(many.ended.wait(), one.ended.wait())
    assert answer(many) == answer(one) == "joined"
    return census


@pytest.mark.parametrize(("max_running", "before_the_single"), [(13, 12), (3, 4)])
async def test_subagents_run_as_many_at_once_as_configured_and_threads_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_running: int, before_the_single: int
) -> None:
    opened = asyncio.Event()
    monkeypatch.setattr(gates, "gate", opened)
    census = await twelve_and_one(tmp_path, max_running, opened)
    assert census.most_alive == max_running
    begun = [started.partition(" ")[2] for started in census.started]
    subagents = [task for task in begun if task == "single" or task.startswith("many")]
    assert len(subagents) == 13
    assert subagents.index("single") <= before_the_single


async def test_cancelled_timed_out_and_completed_at_the_same_moment_is_one_end(tmp_path: Path) -> None:
    census = Census()
    dice = random.Random(49)
    delays = [0.02, 0.098, 0.1, 0.102, 0.3]
    rules = [
        {
            "when": f"^delegate {n}$",
            "turns": [{"tool_calls": [delegation(f"child {n}", f"call-{n}")]}, {"text": "joined"}],
        }
        for n in range(len(delays))
    ] + [
        {"when": f"^child {n}$", "turns": [{"delay_seconds": delay, "text": "done"}]}
        for n, delay in enumerate(delays)
    ]
    limits = {"timeout_seconds": 0.1, "max_running": 64}
    kinds: Counter[str] = Counter()

    async def one(host: Host, number: int) -> None:
        run = await start(host, f"delegate {number % len(delays)}", stream_modes=("custom",))
        async with asyncio.timeout(20):
            while not events(run):
                await asyncio.sleep(0.001)
        if number % 2:
            await asyncio.sleep(0.097 + dice.random() * 0.006)
            await host.runs.stop(run.run_id)
        await run.ended.wait()
        check_one(run)
        kinds.update(event["type"] for event in events(run) if event["type"] in TERMINAL)

    with installed(counting(census)):
        async with scripted_host(tmp_path, rules, subagents=limits, title={"enabled": False}) as host:
            before = asyncio.all_tasks()
            for batch in range(10):
                await asyncio.gather(*(one(host, 20 * batch + number) for number in range(20)))
            await nothing_is_left(host, census, before)
    assert sum(kinds.values()) == 200
    assert len(kinds) > 1
