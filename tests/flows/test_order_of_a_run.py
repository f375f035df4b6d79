"""One lead run, step by step: what is there when each hook is called."""

from __future__ import annotations

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
from langchain.agents.middleware import AgentMiddleware
from support.extensions import installed
from support.hosts import finished, scripted_host
from support.observers import Observed

from deerflow.agents.run_scope import RUN_SCOPE_KEY, RunScope
from deerflow.extensions import LoadedExtensions
from deerflow.host import Host


@dataclass
class Story(TaskLifecycleContributor, MiddlewareContributor):
    """Tells what it finds, in order."""

    told: list[str] = field(default_factory=list)
    contexts: list[dict[str, Any]] = field(default_factory=list)
    stores: set[int] = field(default_factory=set)
    host: Host | None = None

    async def on_task_start(self, app_store: Any, task_store: ExtensionData, info: TaskInfo) -> None:
        self.stores.add(id(task_store))
        self.told.append(f"on_task_start {await self._recorded(info)}")

    async def on_task_stop(
        self, app_store: Any, task_store: ExtensionData, info: TaskInfo, outcome: TaskOutcome
    ) -> None:
        assert self.host is not None
        self.stores.add(id(task_store))
        run = self.host.runs.find(info.run_id)
        assert run is not None
        streamed = "open" if not run.ended.is_set() else "ended"
        self.told.append(f"on_task_stop {await self._recorded(info)}, stream {streamed}, {outcome}")

    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        self.told.append("the graph is made")
        return (MiddlewarePlacement(_Watching(self), Placement.MODEL_LOGICAL),)

    async def _recorded(self, info: TaskInfo) -> str:
        assert self.host is not None
        stored = await self.host.database.stores.runs.get(info.run_id)
        return "not recorded" if stored is None else stored.status.value


class _Watching(AgentMiddleware[Any, Any]):
    def __init__(self, story: Story) -> None:
        super().__init__()
        self._story = story

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self._story.told.append("the model is called")
        self._story.contexts.append(dict(request.runtime.context))
        self._story.stores.add(id(task_store_from_runtime(request.runtime)))
        return await handler(request)


def _told_by(story: Story, **others: Any) -> LoadedExtensions:
    own = (("story:install", story),)
    return LoadedExtensions(task_lifecycle=own, middleware_contributors=own, **others)


async def test_the_record_comes_before_the_start_and_the_end_before_the_stop(tmp_path: Path) -> None:
    story = Story()
    with installed(_told_by(story)):
        async with scripted_host(tmp_path) as host:
            story.host = host
            run = await finished(host, "hello")
    assert story.told == [
        "on_task_start running",
        "the graph is made",
        "the model is called",
        "on_task_stop success, stream open, completed",
    ]
    assert len(story.stores) == 1
    names = [event.name for event in run.log.reader(0).available()]
    assert (names[0], names[-1]) == ("metadata", "end")


async def test_keys_of_the_host_stand_on_top_of_the_callers(tmp_path: Path) -> None:
    story = Story()
    forged = {
        "run_id": "mine",
        "thread_id": "mine",
        "user_id": "somebody",
        "thinking_enabled": True,
        "__pregel_anything": 1,
        RUN_SCOPE_KEY: "forged",
    }
    with installed(_told_by(story)) as loaded:
        async with scripted_host(tmp_path) as host:
            story.host = host
            run = await finished(host, "hello", context=forged, user_id="ada")
    (context,) = story.contexts
    assert (context["run_id"], context["thread_id"], context["user_id"]) == (run.run_id, run.thread_id, "ada")
    assert context["thinking_enabled"] is True
    scope = context[RUN_SCOPE_KEY]
    assert isinstance(scope, RunScope) and scope.snapshot is loaded
    assert "__pregel_anything" not in context


async def test_model_calls_of_the_host_pass_no_contributed_middleware_and_are_observed(
    tmp_path: Path,
) -> None:
    story, observed = Story(), Observed()
    observers = (("observer:install", observed),)
    with installed(_told_by(story, system_model_observers=observers)):
        async with scripted_host(tmp_path, title={"model_name": "scripted"}) as host:
            story.host = host
            await finished(host, "hello")
    assert story.told.count("the model is called") == 1
    (title,) = observed.calls
    assert (title.kind, title.answer.startswith("echo")) == ("title", True)
    assert title.result.error is None
    assert title.result.duration_ms is not None and title.result.duration_ms >= 0
