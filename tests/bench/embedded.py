"""What an embedded run costs beside bare `create_agent`, with extensions, and with a delegation."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
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
)
from langchain.agents.middleware import AgentMiddleware

from deerflow.client import DeerFlowClient
from deerflow.config import config_from
from deerflow.extensions import LoadedExtensions, reset_loaded_extensions, set_loaded_extensions
from tests.bench.pairs import compare, show
from tests.bench.reference import BareHost

_RULES: list[dict[str, Any]] = [
    {
        "when": "^delegate",
        "turns": [
            {"tool_calls": [{"name": "task", "args": {"prompt": "one", "subagent_type": "general-purpose"}}]},
            {"text": "joined: {tool_results}"},
        ],
    },
    {"when": "", "turns": [{"text": "echo: {prompt}"}]},
]


class _Quiet(AgentMiddleware[Any, Any]):
    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


class _Extension(MiddlewareContributor, TaskLifecycleContributor):
    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        return (MiddlewarePlacement(_Quiet(), Placement.MODEL_LOGICAL),)

    async def on_task_start(self, app_store: Any, task_store: Any, info: TaskInfo) -> None:
        pass

    async def on_task_stop(
        self, app_store: Any, task_store: Any, info: TaskInfo, outcome: TaskOutcome
    ) -> None:
        pass


def _ten_extensions() -> LoadedExtensions:
    sources = [(f"bench_{number}:install", _Extension()) for number in range(10)]
    return LoadedExtensions(middleware_contributors=tuple(sources), task_lifecycle=tuple(sources))


def run(rounds: int = 60) -> None:
    """Print the three ratios."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        model = {"name": "scripted", "use": "deerflow.models:ScriptedChatModel", "rules": _RULES}
        config = config_from({"models": [model], "title": {"enabled": False}}).based_in(home)
        reference = BareHost(home, _RULES)
        plain, extended = LoadedExtensions(), _ten_extensions()
        with DeerFlowClient(config) as client:

            def ours(loaded: LoadedExtensions, message: str) -> None:
                set_loaded_extensions(loaded)
                for event in client.stream(message):
                    last = event
                assert last.data["status"] == "success"

            pair = compare(lambda: ours(plain, "hello"), lambda: reference.chat("hello"), rounds=rounds)
            show("embedded run / bare create_agent", pair, "<= 1.5")
            pair = compare(lambda: ours(extended, "hello"), lambda: ours(plain, "hello"), rounds=rounds)
            show("embedded run with ten extensions / without", pair, "<= 1.3")
            pair = compare(lambda: ours(plain, "delegate"), lambda: reference.chat("delegate"), rounds=rounds)
            show("embedded run with one delegation / tool calling an agent", pair, "<= 2.5")
        reference.close()
        reset_loaded_extensions()
