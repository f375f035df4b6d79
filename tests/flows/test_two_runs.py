"""Two runs at once, on two threads and two generations of extensions, never see anything of each other."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deerflow_extension_api import (
    AgentBuildContext,
    ExtensionData,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
    TaskInfo,
    TaskLifecycleContributor,
    TaskOutcome,
    task_store_from_runtime,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents.middleware import AgentMiddleware
from support.extensions import installed
from support.hosts import delegation, scripted_host, start

from deerflow.extensions import LoadedExtensions
from deerflow.runs.active import ActiveRun

NAMES = ("ann", "ben")


@dataclass
class Mark:
    """What one generation leaves in each store that it meets."""

    names: list[str] = field(default_factory=list)


class Marking(AgentMiddleware[Any, Any]):
    def __init__(self, generation: Generation) -> None:
        super().__init__()
        self._generation = generation

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self._generation.meet(task_store_from_runtime(request.runtime))
        return await handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        self._generation.meet(task_store_from_runtime(request.runtime))
        return await handler(request)


class Generation(MiddlewareContributor, TaskLifecycleContributor):
    """An extension that marks every store it is given, and keeps the ids of its tasks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.app_stores: set[int] = set()
        self.stores: dict[str, ExtensionData] = {}
        self.tasks: set[str] = set()

    def meet(self, store: ExtensionData | None) -> None:
        assert store is not None
        self.stores[store.scope_id] = store
        store.get_or_init(Mark, Mark).names.append(self.name)

    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        self.app_stores.add(id(app_store))
        return (MiddlewarePlacement(Marking(self), Placement.TOOL_VISIBLE),)

    async def on_task_start(self, app_store: Any, task_store: ExtensionData, info: TaskInfo) -> None:
        self.app_stores.add(id(app_store))
        self.tasks.add(info.task_id)
        self.meet(task_store)

    async def on_task_stop(
        self, app_store: Any, task_store: ExtensionData, info: TaskInfo, outcome: TaskOutcome
    ) -> None:
        self.meet(task_store)

    def loaded(self) -> LoadedExtensions:
        own = ((f"{self.name}:install", self),)
        return LoadedExtensions(middleware_contributors=own, task_lifecycle=own)


def writing(path: str) -> dict[str, Any]:
    return {"name": "write_file", "args": {"path": path, "content": path}}


def rules_of(name: str, pauses: Sequence[int]) -> list[dict[str, Any]]:
    """A lead that writes and delegates, and a subagent that writes; each turn after its own pause."""
    p = [milliseconds / 1000 for milliseconds in pauses]
    calls = [writing(f"{name}.txt"), delegation(f"inner {name}", f"call of {name}")]
    return [
        {
            "when": f"^outer {name}",
            "turns": [
                {"delay_seconds": p[0], "tool_calls": calls},
                {"delay_seconds": p[1], "tool_calls": [{"name": "ls", "args": {}}]},
                {"text": f"{name} saw {{tool_results}}"},
            ],
        },
        {
            "when": f"^inner {name}",
            "turns": [
                {"delay_seconds": p[2], "tool_calls": [writing(f"{name} inner.txt")]},
                {"delay_seconds": p[3], "text": f"{name} is done"},
            ],
        },
    ]


def check(name: str, run: ActiveRun, generation: Generation, home: Path) -> None:
    other = next(each for each in NAMES if each != name)
    assert run.ending is not None and run.ending.status == "success"
    assert generation.tasks == {run.run_id, f"call of {name}"} == set(generation.stores)
    for store in generation.stores.values():
        mark = store.get(Mark)
        assert mark is not None and set(mark.names) == {name}
    assert len(generation.app_stores) == 1
    folder = home / "threads" / run.thread_id / "workspace"
    assert {path.name for path in folder.iterdir()} == {f"{name}.txt", f"{name} inner.txt"}
    frames = b" ".join(event.payload for event in run.log.after(0)).decode()
    assert name in frames and other not in frames
    customs = [event.data for event in run.log.after(0) if event.name == "custom"]
    assert {event["task_id"] for event in customs} == {f"call of {name}"}
    (done,) = (event for event in customs if event["type"] == "task_completed")
    own = sum(m.usage_metadata["total_tokens"] for m in run.values["messages"] if m.type == "ai")
    assert run.scope is not None
    assert run.scope.usage.total_tokens == own + done["usage"]["total_tokens"]


async def run_both(home: Path, pauses: Sequence[Sequence[int]], lag: int) -> None:
    generations = {name: Generation(name) for name in NAMES}
    rules = [rule for name, own in zip(NAMES, pauses, strict=True) for rule in rules_of(name, own)]
    runs: dict[str, ActiveRun] = {}
    async with scripted_host(home, rules) as host:
        for name in NAMES:
            with installed(generations[name].loaded()):
                runs[name] = await start(host, f"outer {name}", stream_modes=("values", "custom"))
                while runs[name].scope is None:
                    await asyncio.sleep(0)
            await asyncio.sleep(lag / 1000)
        await asyncio.gather(*(run.ended.wait() for run in runs.values()))
        for name in NAMES:
            check(name, runs[name], generations[name], home)


_pauses = st.lists(st.integers(0, 6), min_size=4, max_size=4)


@settings(max_examples=12)
@given(pauses=st.tuples(_pauses, _pauses), lag=st.integers(0, 10))
def test_runs_keep_their_stores_files_usage_and_events(pauses: tuple[list[int], list[int]], lag: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run_both(Path(folder), pauses, lag))
