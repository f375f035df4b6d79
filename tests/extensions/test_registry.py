from __future__ import annotations

from typing import Any

import pytest
from deerflow_extension_api import ExtensionRegistry

from deerflow.extensions import RegistrationError
from deerflow.extensions.diagnostics import DiagnosticLog
from deerflow.extensions.registry import EntryRegistry

METHODS = (
    "middlewares",
    "task_lifecycle",
    "system_model_observer",
    "agent_assembly_observer",
    "context_compaction_observer",
    "service",
)


class OnlyStop:
    async def on_task_stop(self, *arguments: Any) -> None: ...


@pytest.fixture
def registry() -> EntryRegistry:
    return EntryRegistry("acme:install", DiagnosticLog())


def test_registry_is_the_contracts(registry: EntryRegistry) -> None:
    assert isinstance(registry, ExtensionRegistry)


@pytest.mark.parametrize("method", METHODS)
def test_none_is_refused(registry: EntryRegistry, method: str) -> None:
    with pytest.raises(RegistrationError) as raised:
        getattr(registry, method)(None)
    assert str(raised.value) == f"extension acme:install: registry.{method}() got None; register an object"


@pytest.mark.parametrize("method", METHODS)
def test_class_in_place_of_an_instance_is_refused(registry: EntryRegistry, method: str) -> None:
    with pytest.raises(RegistrationError, match=r"got the class OnlyStop; register an instance of it"):
        getattr(registry, method)(OnlyStop)


@pytest.mark.parametrize("method", METHODS)
def test_object_without_the_hook_is_refused(registry: EntryRegistry, method: str) -> None:
    with pytest.raises(TypeError, match=rf"registry\.{method}\(\) got object, which has no method "):
        getattr(registry, method)(object())


def test_one_of_two_hooks_is_enough(registry: EntryRegistry) -> None:
    registry.task_lifecycle(OnlyStop())
    assert len(registry.close().task_lifecycle) == 1


@pytest.mark.parametrize("routers", [None, object(), (router for router in ()), {}, "router", b"router"])
def test_routers_must_be_a_sequence(registry: EntryRegistry, routers: Any) -> None:
    with pytest.raises(RegistrationError, match=r"extension acme:install: registry\.routers\(\) takes a seq"):
        registry.routers(routers)


@pytest.mark.parametrize("router", [None, OnlyStop])
def test_routers_must_be_objects(registry: EntryRegistry, router: Any) -> None:
    with pytest.raises(RegistrationError):
        registry.routers([router])


def test_no_routers_are_fine(registry: EntryRegistry) -> None:
    registry.routers([])
    assert registry.close().routers == []


def test_routers_are_one_entry_each(registry: EntryRegistry) -> None:
    first, second = object(), object()
    registry.routers((first, second))
    assert registry.close().routers == [("acme:install", first), ("acme:install", second)]
