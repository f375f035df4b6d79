"""Faults are thrown at an extension's own hooks; what relies on a hook that may fail is found."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from deerflow_extension_api import (
    ExtensionService,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
    TaskLifecycleContributor,
)
from langchain.agents.middleware import AgentMiddleware

from deerflow.extensions import LoadedExtensions
from deerflow.testing import Conformance, check_conformance, conformance
from deerflow.testing.faults import FAULTS
from deerflow.testing.scripted_host import Limits
from deerflow.testing.targets import find_targets


class Careful(TaskLifecycleContributor):
    async def on_task_stop(self, *arguments: Any) -> None:
        return None


class Relying(TaskLifecycleContributor):
    """Its second hook needs what the first one prepared."""

    async def on_task_start(self, app_store: Any, task_store: Any, info: Any) -> None:
        task_store.set(Prepared())

    async def on_task_stop(self, app_store: Any, task_store: Any, info: Any, outcome: Any) -> None:
        task_store.get(Prepared).finish()


class Prepared:
    def finish(self) -> None:
        pass


class Client(ExtensionService):
    """Cannot stop what has not started."""

    async def start(self, deps: Any) -> None:
        self.connection = Prepared()

    async def stop(self) -> None:
        self.connection.finish()


class Watching(AgentMiddleware[Any, Any]):
    """A hook of every form: async and plain, around calls and between them."""

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request)

    def before_model(self, state: Any, runtime: Any) -> None:
        return None


class Contributing(MiddlewareContributor):
    def contribute_middlewares(self, app_store: Any, ctx: Any) -> Sequence[MiddlewarePlacement]:
        return (MiddlewarePlacement(Watching(), Placement.MODEL_LOGICAL),)


def _verdicts(conformance: Conformance, hook: str) -> dict[str, str]:
    return {cell.fault: cell.verdict for cell in conformance.cells if cell.hook == hook}


def test_hooks_that_need_nobody_hold_against_every_fault() -> None:
    conformance = check_conformance(lambda registry, config: registry.task_lifecycle(Careful()))
    assert _verdicts(conformance, "Careful.on_task_stop") == dict.fromkeys(FAULTS, "held")
    assert _verdicts(conformance, "Careful.on_task_start") == {}
    assert conformance.held and conformance.broken == ()
    conformance.assert_held()


def test_a_hook_that_relies_on_another_is_found() -> None:
    conformance = check_conformance(lambda registry, config: registry.task_lifecycle(Relying()))
    verdicts = _verdicts(conformance, "Relying.on_task_start")
    assert verdicts == dict.fromkeys(FAULTS, "broke")
    assert set(_verdicts(conformance, "Relying.on_task_stop").values()) == {"held"}
    with pytest.raises(AssertionError, match="on_task_stop failed for task"):
        conformance.assert_held()


class Slow(Careful):
    async def on_task_start(self, *arguments: Any) -> None:
        await asyncio.sleep(0.05)


def test_a_hook_may_take_its_time_unless_another_one_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "LIMITS", Limits(hook_seconds=0.001, notification_seconds=0.001))
    monkeypatch.setattr(conformance, "FAULTS", ("raises", "hangs"))
    slow = check_conformance(lambda registry, config: registry.task_lifecycle(Slow()))
    assert _verdicts(slow, "Slow.on_task_stop") == {"raises": "held", "hangs": "broke"}


def test_a_service_that_cannot_stop_what_never_started_is_found() -> None:
    conformance = check_conformance(lambda registry, config: registry.service(Client()))
    assert _verdicts(conformance, "Client.start") == {
        "raises": "broke",
        "raises CancelledError": "broke",
        "wrong type": "broke",
    }
    assert set(_verdicts(conformance, "Client.stop").values()) == {"held"}
    assert "service stop() failed" in str(conformance)


def test_every_form_of_middleware_hook_is_thrown_at() -> None:
    conformance = check_conformance(lambda registry, config: registry.middlewares(Contributing()))
    assert conformance.held, str(conformance)
    assert set(_verdicts(conformance, "Watching.awrap_model_call after its handler")) == set(FAULTS)
    assert set(_verdicts(conformance, "Watching.wrap_tool_call before its handler")) == {
        "raises",
        "hangs",
        "raises CancelledError",
        "wrong type",
    }
    for hook in ("Watching.before_model", "Contributing.contribute_middlewares"):
        assert set(_verdicts(conformance, hook).values()) == {"held"}


def test_hooks_of_a_contributor_that_looks_at_its_agent_are_found() -> None:
    class Choosing(MiddlewareContributor):
        def contribute_middlewares(self, app_store: Any, ctx: Any) -> Sequence[MiddlewarePlacement]:
            named = f"{ctx.agent_name.lower()} {ctx.model_name.lower()}"
            return (MiddlewarePlacement(Watching(), Placement.TOOL_RAW),) if named else ()

    loaded = LoadedExtensions(middleware_contributors=(("acme:install", Choosing()),))
    assert "Watching.before_model" in {target.label for target in find_targets(loaded)}


def test_an_extension_that_cannot_be_installed_twice_is_found() -> None:
    class Only(AgentMiddleware[Any, Any]):
        async def abefore_model(self, state: Any, runtime: Any) -> None:
            return None

    only = Only()

    class Same(MiddlewareContributor):
        def contribute_middlewares(self, app_store: Any, ctx: Any) -> Sequence[MiddlewarePlacement]:
            return (MiddlewarePlacement(only, Placement.STANDARD),)

    conformance = check_conformance(lambda registry, config: registry.middlewares(Same()))
    assert _verdicts(conformance, "install()")["is called twice"] == "broke"


def test_a_hook_that_no_scenario_reaches_is_neither_held_nor_broken() -> None:
    class Idle(AgentMiddleware[Any, Any]):
        pass

    class NeverAsked(AgentMiddleware[Any, Any]):
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return await handler(request)

    class Sometimes(MiddlewareContributor):
        asked = 0

        def contribute_middlewares(self, app_store: Any, ctx: Any) -> Sequence[MiddlewarePlacement]:
            # The pass looks once for targets; the hosts that it opens then get another middleware.
            type(self).asked += 1
            chosen = NeverAsked() if type(self).asked == 1 else Idle()
            return (MiddlewarePlacement(chosen, Placement.TOOL_RAW),)

    conformance = check_conformance(lambda registry, config: registry.middlewares(Sometimes()))
    assert _verdicts(conformance, "NeverAsked.awrap_tool_call before its handler")["raises"] == "not reached"
    assert conformance.held


def test_a_contributor_that_always_fails_is_found_without_a_fault() -> None:
    class Failing(MiddlewareContributor):
        def contribute_middlewares(self, app_store: Any, ctx: Any) -> Sequence[MiddlewarePlacement]:
            raise KeyError("model")

    conformance = check_conformance(lambda registry, config: registry.middlewares(Failing()))
    assert _verdicts(conformance, "install(), delegation") == {"no fault": "broke"}
    assert "contribute_middlewares() failed: 'model'" in str(conformance)
