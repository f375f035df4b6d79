"""`@provider` and the registry of one Application."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from axonx import Application, BaseComponent, BaseStep, provider
from axonx.components.builtin import BUILT_IN_PATHS
from axonx.components.job import PipelineJob
from axonx.components.registry import ProviderRegistry, category_of, class_path, provider_name
from axonx.errors import (
    AxonXError,
    InvalidProviderError,
    ProviderConflictError,
    RegistryFrozenError,
    UnknownProviderError,
)


def component(backend: str, category: str = "fmt") -> type[BaseComponent]:
    cls: type[BaseComponent] = type("Fmt", (BaseComponent,), {"component_type": category})
    return provider(backend)(cls)


@pytest.mark.parametrize("name", ["", None, 3, b"a"])
def test_a_provider_name_is_checked_before_the_class_is_seen(name: Any) -> None:
    with pytest.raises(ValueError, match="Provider name must be a non-empty string"):
        provider(name)


def test_provider_returns_the_class_and_names_only_that_class() -> None:
    @provider("one")
    class One(BaseComponent):
        component_type = "fmt"

    class Two(One):
        pass

    assert provider_name(One) == "one"
    assert provider_name(Two) is None
    assert provider_name(provider("two")(Two)) == "two"
    with pytest.raises(TypeError, match="One already declares a provider name"):
        provider("again")(One)


def test_an_external_class_reaches_no_registry_by_being_decorated() -> None:
    component("only_here")
    assert ProviderRegistry().find("fmt", "only_here") is None


def test_the_same_class_and_owner_is_accepted_again() -> None:
    registry, cls = ProviderRegistry(), component("a")
    registry.add("fmt", "a", cls, "me")
    registry.add("fmt", "a", cls, "me")
    assert registry.get("fmt", "a") is cls


def test_another_owner_of_the_same_class_is_a_conflict() -> None:
    registry, cls = ProviderRegistry(), component("a")
    registry.add("fmt", "a", cls, "owner1")
    with pytest.raises(ProviderConflictError, match=r"'fmt:a' is supplied by both 'owner1' .* and 'owner2'"):
        registry.add("fmt", "a", cls, "owner2")
    assert registry.find("fmt", "a") is not None


def test_a_conflict_names_both_classes_of_one_module() -> None:
    class First(BaseComponent):
        component_type = "fmt"

    class Second(BaseComponent):
        component_type = "fmt"

    registry = ProviderRegistry()
    registry.add_provider(provider("a")(First))
    with pytest.raises(ValueError) as caught:
        registry.add_provider(provider("a")(Second))
    assert f"'{class_path(First)}' and '{class_path(Second)}'" in str(caught.value)


def test_one_backend_name_serves_two_categories() -> None:
    registry = ProviderRegistry()
    registry.add_provider(component("a", "fmt"))
    registry.add_provider(component("a", "cache"))
    assert registry.get("fmt", "a") is not registry.get("cache", "a")


def test_built_in_providers_cannot_be_replaced() -> None:
    registry = ProviderRegistry()
    with pytest.raises(ProviderConflictError, match="job:pipeline"):
        registry.add("job", "pipeline", component("pipeline", "job"))
    assert registry.get("job", "pipeline") is PipelineJob


@pytest.mark.parametrize(("key", "path"), sorted(BUILT_IN_PATHS.items()))
def test_every_built_in_path_leads_to_the_class_that_declares_it(key: tuple[str, str], path: str) -> None:
    module, _, name = path.partition(":")
    cls = getattr(importlib.import_module(module), name)
    assert (category_of(cls), provider_name(cls)) == key


def test_an_unknown_backend_lists_the_known_ones() -> None:
    registry = ProviderRegistry()
    registry.add_provider(component("html"))
    with pytest.raises(UnknownProviderError, match=r"Unknown fmt backend: zzz \(known: html\)"):
        registry.get("fmt", "zzz")


def test_a_frozen_registry_refuses_even_what_it_holds() -> None:
    registry, cls = ProviderRegistry(), component("a")
    registry.add_provider(cls)
    registry.freeze()
    with pytest.raises(RegistryFrozenError, match="Provider registry is frozen") as caught:
        registry.add_provider(cls)
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value, AxonXError)
    with pytest.raises(TypeError):
        registry.providers["fmt", "b"] = None  # type: ignore[index]


class Undecorated(BaseComponent):
    component_type = "fmt"


@pytest.mark.parametrize(
    ("providers", "error", "message"),
    [
        ((3,), TypeError, "Provider implementation must be a class"),
        ("ab", TypeError, "Provider implementation must be a class"),
        ((Undecorated,), TypeError, r"Undecorated must be decorated with @provider\(name\)"),
        ((provider("x")(type("NoType", (), {})),), ValueError, "Component type must be a non-empty string"),
        ((provider("x")(type("Bare", (BaseComponent,), {})),), TypeError, "non-BASE component_type"),
        (Undecorated, TypeError, "providers must be a sequence of classes"),
    ],
)
def test_what_cannot_be_a_provider_is_refused(providers: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Application(providers=providers)


def test_a_class_that_is_no_component_fails_only_when_it_is_used(tmp_path: Path) -> None:
    @provider("pl")
    class Plain:
        component_type = "fmt"

    Application(providers=(Plain,), workspace_dir=tmp_path)
    with pytest.raises(InvalidProviderError, match="Provider fmt:pl must subclass BaseComponent"):
        Application(providers=(Plain,), workspace_dir=tmp_path, components={"fmt": {"a": {"backend": "pl"}}})


def test_each_application_has_a_registry_of_its_own(tmp_path: Path) -> None:
    first, second = component("a"), component("a")
    one = Application(providers=(first,), workspace_dir=tmp_path)
    two = Application(providers=(second, second), workspace_dir=tmp_path)
    assert one.context.registry.get("fmt", "a") is first
    assert two.context.registry.get("fmt", "a") is second


def test_composition_freezes_the_registry(tmp_path: Path) -> None:
    registry = Application(workspace_dir=tmp_path).context.registry
    assert registry.frozen
    with pytest.raises(RegistryFrozenError):
        registry.add_provider(component("late"))


def test_a_step_that_is_no_step_is_refused(tmp_path: Path) -> None:
    @provider("not_a_step")
    class NotAStep(BaseComponent):
        component_type = BaseStep.component_type

    with pytest.raises(TypeError, match="Provider step:not_a_step must subclass BaseStep"):
        Application(
            providers=(NotAStep,), workspace_dir=tmp_path, jobs={"j": {"steps": [{"backend": "not_a_step"}]}}
        )
