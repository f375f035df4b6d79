"""What contributors are told when agents are built, and what their middlewares see at each placement."""

from __future__ import annotations

import asyncio
import gc
import sys
import weakref
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
from deerflow_extension_api import (
    AgentBuildContext,
    AgentScope,
    CompactionEvent,
    ContextCompactionObserver,
    ExtensionData,
    HostPolicySnapshot,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
)
from langchain.agents.middleware import AgentMiddleware
from support.extensions import installed
from support.hosts import DELEGATE_TWICE, answer, finished, scripted_host

from deerflow.extensions import (
    LoadedExtensions,
    get_loaded_extensions,
    notify_compaction,
    register_notification_loop,
)
from deerflow.models import ScriptedChatModel


class Asking(MiddlewareContributor):
    """Keeps what it was asked with; contributes nothing."""

    def __init__(self) -> None:
        self.contexts: list[AgentBuildContext] = []
        self.app_stores: list[ExtensionData] = []

    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        self.contexts.append(ctx)
        self.app_stores.append(app_store)
        return ()


def _asking(*contributors: Any) -> LoadedExtensions:
    named = tuple((f"acme_{number}:install", one) for number, one in enumerate(contributors))
    return LoadedExtensions(middleware_contributors=named)


async def test_lead_and_subagents_are_told_their_own_limits(tmp_path: Path) -> None:
    asking = Asking()
    budget = {"enabled": True, "max_tokens": 1000, "max_input_tokens": 800, "warn_threshold": 0.5}
    subagents = {
        "max_total_per_run": 4,
        "token_budget": {"max_tokens": 500, "max_output_tokens": 90},
        "agents": {"general-purpose": {"token_budget": {"max_tokens": 300, "hard_stop_threshold": 0.9}}},
    }
    with installed(_asking(asking)):
        async with scripted_host(
            tmp_path, [DELEGATE_TWICE], token_budget=budget, subagents=subagents
        ) as host:
            await finished(host, "delegate", context={"max_total_subagents": 3})
    lead, subagent = asking.contexts
    assert (lead.scope, lead.agent_name, lead.model_name) == (AgentScope.LEAD, "lead_agent", "scripted")
    assert lead.policy == HostPolicySnapshot(
        token_budget_enabled=True,
        max_input_tokens=800,
        max_total_tokens=1000,
        budget_warn_fraction=0.5,
        budget_hard_fraction=1.0,
        max_subagents_per_run=3,
    )
    assert (subagent.scope, subagent.agent_name) == (AgentScope.SUBAGENT, "general-purpose")
    assert subagent.policy == HostPolicySnapshot(
        token_budget_enabled=True,
        max_output_tokens=90,
        max_total_tokens=300,
        budget_warn_fraction=0.7,
        budget_hard_fraction=0.9,
        max_subagents_per_run=None,
    )


async def test_without_a_budget_no_token_limit_is_told(tmp_path: Path) -> None:
    asking = Asking()
    off = {"token_budget": {"enabled": False}}
    with installed(_asking(asking)):
        async with scripted_host(tmp_path, [DELEGATE_TWICE], subagents=off) as host:
            await finished(host, "delegate")
    assert [ctx.policy for ctx in asking.contexts] == [
        HostPolicySnapshot(max_subagents_per_run=6),
        HostPolicySnapshot(max_subagents_per_run=None),
    ]


async def test_all_extensions_share_one_app_store(tmp_path: Path) -> None:
    first, second = Asking(), Asking()
    with installed(_asking(first, second)) as loaded:
        async with scripted_host(tmp_path, [DELEGATE_TWICE]) as host:
            await finished(host, "delegate")
            await finished(host, "hello", context={"thinking_enabled": True})
    stores = {id(store) for store in (*first.app_stores, *second.app_stores)}
    assert stores == {id(loaded.app_store)}
    assert loaded.app_store.scope_id == "app"


async def test_runs_leave_the_process_wide_set_as_it_is(tmp_path: Path) -> None:
    with installed(_asking(Asking())) as loaded:
        async with scripted_host(tmp_path, [DELEGATE_TWICE]) as host:
            for _ in range(3):
                await finished(host, "delegate")
                assert get_loaded_extensions() is loaded


class Keeping(ContextCompactionObserver):
    """Writes into the stores that come with observations, and follows them."""

    def __init__(self) -> None:
        self.found: list[Any] = []
        self.stores: list[weakref.ref[ExtensionData]] = []

    async def on_context_compacted(
        self, app_store: ExtensionData, task_store: ExtensionData, event: CompactionEvent
    ) -> None:
        self.found.append(task_store.get(int))
        task_store.set(len(self.stores))
        self.stores.append(weakref.ref(task_store))


async def test_what_is_written_to_a_detached_store_is_gone_after_its_notification() -> None:
    keeping = Keeping()
    own = (("acme:install", keeping),)
    loaded = LoadedExtensions(context_compaction_observers=own)
    registration = register_notification_loop()
    try:
        for _ in range(3):
            notify_compaction(loaded, CompactionEvent("summarization", "1", (), "", 1, 1))
        while len(keeping.stores) < 3:
            await asyncio.sleep(0.001)
        await registration.drain(30)
    finally:
        registration.release()
    await asyncio.sleep(0)
    gc.collect()
    assert keeping.found == [None, None, None]
    assert [store() for store in keeping.stores] == [None, None, None]


class Looking(AgentMiddleware[Any, Any]):
    """Counts the calls at its place, and keeps what it saw of them."""

    def __init__(self, where: str, calls: Counter[str], seen: dict[str, Any]) -> None:
        super().__init__()
        self.where = where
        self.calls = calls
        self.seen = seen

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self.calls[f"{self.where} model"] += 1
        return await handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        self.calls[f"{self.where} tool"] += 1
        result = await handler(request)
        self.seen[self.where] = str(result.content)
        return result


class LookingEverywhere(MiddlewareContributor):
    """Looks on at each placement."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.seen: dict[str, Any] = {}

    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        if ctx.scope is not AgentScope.LEAD:
            return ()
        return [
            MiddlewarePlacement(Looking(placement.value, self.calls, self.seen), placement)
            for placement in Placement
        ]


class FlakyChatModel(ScriptedChatModel):
    """Loses its connection twice, then answers."""

    failures: ClassVar[int] = 2

    def _turn(self, *arguments: Any) -> Any:
        if FlakyChatModel.failures > 0:
            FlakyChatModel.failures -= 1
            raise ConnectionError("try again")
        return super()._turn(*arguments)


@pytest.fixture
def _flaky(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("flaky_models")
    module.FlakyChatModel = FlakyChatModel
    monkeypatch.setitem(sys.modules, "flaky_models", module)
    monkeypatch.setattr(FlakyChatModel, "failures", 2)


@pytest.mark.usefixtures("_flaky")
async def test_three_attempts_at_one_answer_are_one_logical_call_and_three_physical_ones(
    tmp_path: Path,
) -> None:
    looking = LookingEverywhere()
    rules = [{"when": "", "turns": [{"text": "at last"}]}]
    with installed(_asking(looking)):
        async with scripted_host(
            tmp_path,
            models=[{"name": "flaky", "use": "flaky_models:FlakyChatModel", "rules": rules}],
            model_retry={"max_retries": 2, "initial_delay_seconds": 0.001},
        ) as host:
            assert answer(await finished(host, "hello")) == "at last"
    assert looking.calls["model_logical model"] == 1
    assert looking.calls["model_physical model"] == 3


async def test_a_result_is_seen_raw_next_to_the_tool_and_as_the_transcript_has_it_outermost(
    tmp_path: Path,
) -> None:
    looking = LookingEverywhere()
    call = {"name": "tell", "args": {"size": 300_000}, "id": "call-1"}
    rules = [{"when": "^tell", "turns": [{"tool_calls": [call]}, {"text": "done"}]}]
    with installed(_asking(looking)):
        async with scripted_host(tmp_path, rules, tools=[{"use": "support.stepping:tell"}]) as host:
            run = await finished(host, "tell")
    told = str(run.values["messages"][-2].content)
    assert len(told) < 300_000
    assert looking.seen["tool_visible"] == told
    assert len(looking.seen["tool_raw"]) >= 300_000
    assert {where for where in looking.calls if where.endswith("tool")} == {
        f"{placement.value} tool" for placement in Placement
    }
