"""`depend`: what it refuses at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.axonx_app import recorder_app

from axonx import BaseComponent
from axonx.errors import DependencyError


class Needed(BaseComponent):
    component_type = "needed"


class Member(BaseComponent):
    component_type = "member"
    announced: Needed | None = None
    constant = 3

    def method(self) -> None: ...


NO_NAMES: tuple[Any, ...] = ("1x", "a b", "", "class", "None", None, 3, [])
PRIVATE_NAMES = ("_close", "_x", "__init__")
MEMBERS = ("start", "close", "logger", "is_started", "name", "backend", "app_context", "kwargs", "depend")
OWN_MEMBERS = ("get_component", "workspace_path", "method", "constant", "own")


@pytest.mark.parametrize("attribute", (*NO_NAMES, *PRIVATE_NAMES, *MEMBERS, *OWN_MEMBERS))
def test_a_name_that_would_replace_a_member_is_refused(attribute: Any) -> None:
    component = Member()
    component.own = object()  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="Invalid dependency attribute"):
        component.depend(attribute, "default", Needed)


def test_an_announced_attribute_may_be_declared() -> None:
    component = Member()
    component.depend("announced", "default", Needed)
    assert repr(component.announced) == "<unresolved needed:default>"


def test_an_attribute_is_declared_once() -> None:
    component = Member()
    component.depend("other", "default", Needed)
    with pytest.raises(ValueError, match="Dependency attribute already declared: other"):
        component.depend("other", "second", Needed)


@pytest.mark.parametrize("name", ["", None])
def test_only_an_optional_dependency_may_lack_a_name(name: str | None) -> None:
    component = Member()
    with pytest.raises(ValueError, match="Dependency 'other' requires a component name"):
        component.depend("other", name, Needed)
    component.depend("other", name, object, required=False)
    assert component.other is None  # type: ignore[attr-defined]
    component.depend("other", "default", Needed)


@pytest.mark.parametrize("base", [BaseComponent, object, "Needed", None])
def test_the_expected_class_must_declare_a_category(base: Any) -> None:
    with pytest.raises(TypeError, match="must declare a non-BASE component_type"):
        Member().depend("other", "default", base)


def test_depend_is_refused_after_composition(tmp_path: Path) -> None:
    app = recorder_app(tmp_path, [], {"a": {}})
    with pytest.raises(
        DependencyError, match=r"composed already: declare 'late' with depend\(\) in __init__"
    ):
        app.context.component("recorder", "a").depend("late", "a", Needed)
