"""Entry point, registry and the defaults of every protocol."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import deerflow_extension_api as api
import pytest
from deerflow_extension_api import (
    AgentBuildContext,
    AgentScope,
    ExtensionData,
    ExtensionRegistry,
    ExtensionRuntimeDeps,
    TaskInfo,
    TaskOutcome,
    extension,
)

STORE = ExtensionData("app")
INFO = TaskInfo("task", "run", "thread", "lead")

DEFAULT_CALLS: list[tuple[str, str, tuple[Any, ...]]] = [
    *(
        ("ExtensionRegistry", method, (object(),))
        for method in (
            "middlewares",
            "task_lifecycle",
            "system_model_observer",
            "agent_assembly_observer",
            "context_compaction_observer",
            "service",
            "routers",
        )
    ),
    ("TaskLifecycleContributor", "on_task_start", (STORE, STORE, INFO)),
    ("TaskLifecycleContributor", "on_task_stop", (STORE, STORE, INFO, TaskOutcome.FAILED)),
    ("SystemModelCallObserver", "on_system_model_call", (STORE, STORE, None, None, None)),
    ("ContextCompactionObserver", "on_context_compacted", (STORE, STORE, None)),
    ("AgentAssemblyObserver", "on_agent_assembled", (STORE, None)),
    ("ExtensionService", "start", (ExtensionRuntimeDeps(),)),
    ("ExtensionService", "stop", ()),
]

ASYNC_METHODS = {
    "on_task_start",
    "on_task_stop",
    "on_system_model_call",
    "on_context_compacted",
    "start",
    "stop",
}

PROTOCOLS = [name for name in api.__all__ if getattr(getattr(api, name), "_is_protocol", False)]


def subclass_of(protocol: str) -> Any:
    """Return an instance of a class that overrides nothing."""
    return type("Nothing", (getattr(api, protocol),), {})()


class RecordingRegistry(ExtensionRegistry):
    def __init__(self) -> None:
        self.services: list[Any] = []

    def service(self, service: Any) -> None:
        self.services.append(service)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_subclass_that_overrides_nothing_can_be_made(protocol: str) -> None:
    assert getattr(api, protocol) in type(subclass_of(protocol)).__mro__


def test_every_method_with_a_default_is_called_here() -> None:
    called = {(protocol, method) for protocol, method, _ in DEFAULT_CALLS}
    called |= {("MiddlewareContributor", "contribute_middlewares")}
    called |= {("ReleasePolicyProvider", "release_policy_parameters")}
    called |= {
        ("RunEvidenceReader", name) for name in ("list_changed_runs", "list_run_events", "get_run_status")
    }
    declared = {
        (protocol, name)
        for protocol in PROTOCOLS
        for name, member in vars(getattr(api, protocol)).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }
    assert called == declared


@pytest.mark.parametrize(("protocol", "method", "arguments"), DEFAULT_CALLS)
async def test_the_default_of_a_hook_does_nothing(
    protocol: str, method: str, arguments: tuple[Any, ...]
) -> None:
    result = getattr(subclass_of(protocol), method)(*arguments)
    assert inspect.iscoroutine(result) == (method in ASYNC_METHODS)
    assert (await result if inspect.iscoroutine(result) else result) is None


def test_a_contributor_adds_no_middleware_by_default() -> None:
    contributor = subclass_of("MiddlewareContributor")
    assert contributor.contribute_middlewares(STORE, AgentBuildContext(AgentScope.LEAD)) == ()


def test_a_provider_declares_nothing_by_default() -> None:
    assert subclass_of("ReleasePolicyProvider").release_policy_parameters() == {}


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("list_changed_runs", {"cursor": None, "limit": 1}),
        ("list_run_events", {"thread_id": "t", "run_id": "r", "after_seq": None, "limit": 1}),
        ("get_run_status", {"thread_id": "t", "run_id": "r"}),
    ],
)
async def test_a_reader_says_which_method_it_does_not_offer(method: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(NotImplementedError, match=method):
        await getattr(subclass_of("RunEvidenceReader"), method)(**arguments)


def test_an_object_with_the_registry_s_methods_is_a_registry() -> None:
    methods = [method for protocol, method, _ in DEFAULT_CALLS if protocol == "ExtensionRegistry"]
    duck = type("Duck", (), dict.fromkeys(methods, lambda self, contribution: None))
    assert isinstance(duck(), ExtensionRegistry)
    assert not isinstance(object(), ExtensionRegistry)


def test_a_partial_registry_ignores_the_other_registrations() -> None:
    registry = RecordingRegistry()
    registry.service("service")
    registry.middlewares(object())
    assert registry.services == ["service"]


def test_the_marker_stands_on_the_function_itself() -> None:
    def install(registry: ExtensionRegistry, config: Any) -> None:
        registry.service(config["service"])

    assert extension(api="0.2", name="mine")(install) is install
    assert (install.__deerflow_api__, install.__deerflow_name__) == ("0.2", "mine")
    registry = RecordingRegistry()
    install(registry, {"service": 1})
    assert registry.services == [1]


def test_a_name_in_the_marker_may_be_left_out() -> None:
    assert extension(api="0.2")(lambda registry, config: None).__deerflow_name__ is None


def test_the_marker_takes_keyword_arguments_only() -> None:
    with pytest.raises(TypeError):
        extension("0.2")
    with pytest.raises(TypeError):
        extension()


def test_a_wrong_marker_is_left_for_the_host_to_refuse() -> None:
    assert extension(api=0.2)(lambda registry, config: None).__deerflow_api__ == 0.2


def test_the_typed_extension_registers_and_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    consumer = import_module("typed_consumer")
    registry = RecordingRegistry()
    consumer.install(registry, {})
    assert [type(service).__name__ for service in registry.services] == ["Exporter"]
    with pytest.raises(PermissionError):
        consumer.read_types(None, None)
