"""How an assembled agent is described: what it consists of, no secrets, never at its cost."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from deerflow_extension_api import (
    AgentAssemblyDescriptor,
    AgentAssemblyObserver,
    AgentBuildContext,
    ExtensionData,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
    canonical_hash,
)
from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import StructuredTool
from support.extensions import installed
from support.hosts import DELEGATE_TWICE, finished, scripted_host

from deerflow.extensions import LoadedExtensions
from deerflow.models import ScriptedChatModel


class Policed(AgentMiddleware[Any, Any]):
    """A contributed middleware that declares what it was configured with."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self.level = level

    def release_policy_parameters(self) -> dict[str, Any]:
        return {"level": self.level}

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


class Acme(MiddlewareContributor, AgentAssemblyObserver):
    """Contributes one middleware, perhaps with a tool, and keeps the descriptors."""

    def __init__(self, level: int = 1, tool: Any = None) -> None:
        self.level = level
        self.tool = tool
        self.seen: list[AgentAssemblyDescriptor] = []

    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        middleware = Policed(self.level)
        if self.tool is not None:
            middleware.tools = [self.tool]
        return (MiddlewarePlacement(middleware, Placement.MODEL_PHYSICAL),)

    def on_agent_assembled(self, app_store: ExtensionData, descriptor: AgentAssemblyDescriptor) -> None:
        assert app_store.scope_id == "app"
        self.seen.append(descriptor)

    def loaded(self) -> LoadedExtensions:
        own = (("acme:install", self),)
        return LoadedExtensions(middleware_contributors=own, agent_assembly_observers=own)


async def _described(home: Path, acme: Acme, text: str = "hello", **fields: Any) -> AgentAssemblyDescriptor:
    with installed(acme.loaded()):
        async with scripted_host(home, [DELEGATE_TWICE]) as host:
            run = await finished(host, text, **fields)
            assert run.ending is not None and run.ending.status == "success"
    return acme.seen[0]


async def test_lead_and_each_type_of_subagent_are_described_once(tmp_path: Path) -> None:
    acme = Acme()
    with installed(acme.loaded()):
        async with scripted_host(tmp_path, [DELEGATE_TWICE]) as host:
            for _ in range(3):
                await finished(host, "delegate")
    assert [(one.namespace, one.agent_name) for one in acme.seen] == [
        ("lead", "lead_agent"),
        ("subagent", "general-purpose"),
    ]
    lead, subagent = acme.seen
    assert "task" in {tool.name for tool in lead.tools}
    assert "task" not in {tool.name for tool in subagent.tools}
    assert lead.fingerprint != subagent.fingerprint


async def test_a_contributed_middleware_is_described_as_itself_with_its_policy(tmp_path: Path) -> None:
    descriptor = await _described(tmp_path, Acme(level=3))
    (contributed,) = [one for one in descriptor.middlewares if one.extension is not None]
    assert (contributed.name, contributed.module) == ("Policed", Policed.__module__)
    assert contributed.extension == "acme:install"
    assert contributed.policy_parameters == {"level": 3}
    assert descriptor.effective_policies["Policed"] == {"level": 3}
    assert {"RunLimits", "ModelRetryMiddleware"} <= {one.name for one in descriptor.middlewares}


async def test_what_changes_behaviour_changes_the_fingerprint_and_nothing_else_does(tmp_path: Path) -> None:
    first = await _described(tmp_path, Acme())
    again = await _described(tmp_path, Acme())
    stricter = await _described(tmp_path, Acme(level=2))
    tool = StructuredTool.from_function(lambda: "x", name="extra", description="One more.")
    equipped = await _described(tmp_path, Acme(tool=tool))
    limited = await _described(tmp_path, Acme(), context={"max_total_subagents": 1})
    assert first.fingerprint == again.fingerprint
    assert len({one.fingerprint for one in (first, stricter, equipped, limited)}) == 4


async def test_secrets_of_a_model_reach_nobody(tmp_path: Path) -> None:
    secret = "swordfish"
    nested = {"password": secret, "region": "eu"}
    model = {"api_key": secret, "default_headers": {"x": secret}, "nested": nested, "temperature": 0.5}
    acme = Acme()
    with installed(acme.loaded()):
        async with scripted_host(tmp_path, models=[_GUARDED | model]) as host:
            await finished(host, "hello")
    (descriptor,) = acme.seen
    assert descriptor.model_parameters["temperature"] == 0.5
    assert descriptor.model_parameters["nested"] == {"region": "eu"}
    assert secret not in repr(descriptor)
    json.dumps(descriptor.model_parameters)


def build_guarded(**parameters: Any) -> ScriptedChatModel:
    """A model that takes what a real one would."""
    assert parameters["api_key"] == "swordfish"
    return ScriptedChatModel()


_GUARDED = {"name": "guarded", "use": "guarded_models:build_guarded"}


@pytest.fixture(autouse=True)
def _guarded_models(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("guarded_models")
    vars(module)["build_guarded"] = build_guarded
    monkeypatch.setitem(sys.modules, "guarded_models", module)


def _endless(weight: float = float("inf")) -> str:
    return f"weighed {weight}"


async def test_a_tool_that_cannot_be_hashed_as_json_still_can_be_described_and_used(tmp_path: Path) -> None:
    tool = StructuredTool.from_function(_endless, name="weigh", description="Weigh.")
    calling = {
        "when": "^weigh",
        "turns": [{"tool_calls": [{"name": "weigh", "args": {}}]}, {"text": "{tool_results}"}],
    }
    acme = Acme(tool=tool)
    with installed(acme.loaded()):
        async with scripted_host(tmp_path, [calling]) as host:
            run = await finished(host, "weigh")
    assert run.values["messages"][-1].text == "weighed inf"
    (weigh,) = [one for one in acme.seen[0].tools if one.name == "weigh"]
    assert len(weigh.schema_hash) == 64


async def test_tools_are_described_by_hashes_and_owner(tmp_path: Path) -> None:
    descriptor = await _described(tmp_path, Acme())
    tools = {tool.name: tool for tool in descriptor.tools}
    assert {tool.source for tool in tools.values()} == {"host"}
    assert all(len(tool.schema_hash) == len(tool.description_hash) == 64 for tool in tools.values())
    assert tools["task"].schema_hash != canonical_hash({})


@pytest.mark.parametrize("asked", [None, "scripted"])
async def test_the_requested_model_is_told_apart_from_the_effective_one(
    tmp_path: Path, asked: str | None
) -> None:
    descriptor = await _described(tmp_path, Acme(), context={"model_name": asked} if asked else {})
    assert (descriptor.requested_model, descriptor.effective_model) == (asked, "scripted")
