"""Policies that middlewares declare."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from deerflow_extension_api import (
    WRAPPED_MIDDLEWARE_ATTRIBUTE,
    ReleasePolicyProvider,
    collect_release_policies,
)


class Budget:
    def __init__(self, declared: Any = None) -> None:
        self.declared = declared

    def release_policy_parameters(self) -> Any:
        return self.declared


class Retry(Budget):
    """Another declaring middleware."""


class Silent:
    """Declares nothing."""


class Wrapper:
    def __init__(self, inner: Any) -> None:
        setattr(self, WRAPPED_MIDDLEWARE_ATTRIBUTE, inner)


class Failing:
    def release_policy_parameters(self) -> dict[str, Any]:
        raise LookupError("secret text")


class FailingAttribute:
    @property
    def release_policy_parameters(self) -> Any:
        raise OSError


class FailingWrapper(Budget):
    @property
    def __deerflow_wrapped__(self) -> Any:
        raise OSError


class FailingMapping(dict):
    def keys(self) -> Any:
        raise OSError

    __iter__ = keys


class NotCallable:
    release_policy_parameters = 7


class Async:
    async def release_policy_parameters(self) -> dict[str, Any]:
        return {}


class EndlessWrapper:
    """Gives itself for every attribute, as a careless proxy does."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self) -> dict[str, Any]:
        return {"proxy": True}


def test_policies_are_keyed_by_class_in_order() -> None:
    stack = [Budget({"max": 1}), Silent(), Retry({"max": 2}), Budget({"max": 3}), Budget({})]
    assert list(collect_release_policies(stack).items()) == [
        ("Budget", {"max": 1}),
        ("Retry", {"max": 2}),
        ("Budget#2", {"max": 3}),
        ("Budget#3", {}),
    ]


def test_no_middlewares_no_policies() -> None:
    assert collect_release_policies([]) == {}
    assert collect_release_policies(iter([Silent(), None, "text"])) == {}


def test_a_wrapped_middleware_is_described_as_itself() -> None:
    stack = [Wrapper(Budget({"max": 1})), Wrapper(Wrapper(Budget({"max": 2}))), Wrapper(Silent())]
    assert collect_release_policies(stack) == {"Budget": {"max": 1}, "Budget#2": {"max": 2}}


def test_wrappers_are_followed_so_far_and_no_further() -> None:
    looped = Wrapper(None)
    setattr(looped, WRAPPED_MIDDLEWARE_ATTRIBUTE, looped)
    assert collect_release_policies([looped, Budget({"max": 1})]) == {"Budget": {"max": 1}}
    assert collect_release_policies([EndlessWrapper()]) == {"EndlessWrapper": {"proxy": True}}


@pytest.mark.parametrize(
    ("middleware", "declared"),
    [
        (Failing(), {"error": "LookupError"}),
        (FailingAttribute(), {"error": "OSError"}),
        (Budget(FailingMapping()), {"error": "OSError"}),
        (NotCallable(), {"error": "TypeError"}),
        (Budget(None), {"error": "NonMappingDeclaration"}),
        (Budget([("max", 1)]), {"error": "NonMappingDeclaration"}),
        (Async(), {"error": "NonMappingDeclaration"}),
        (FailingWrapper({"max": 1}), {"max": 1}),
        (Budget(MappingProxyType({"max": 1})), {"max": 1}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_one_broken_declaration_does_not_hide_the_others(middleware: Any, declared: dict[str, Any]) -> None:
    collected = collect_release_policies([Retry({"max": 2}), middleware])
    assert collected == {"Retry": {"max": 2}, type(middleware).__name__: declared}


def test_what_was_collected_belongs_to_the_caller() -> None:
    declared = {"max": 1}
    collect_release_policies([Budget(declared)])["Budget"]["max"] = 2
    assert declared == {"max": 1}


def test_an_exit_out_of_a_declaration_travels_on() -> None:
    class Leaving:
        def release_policy_parameters(self) -> dict[str, Any]:
            raise SystemExit

    with pytest.raises(SystemExit):
        collect_release_policies([Leaving()])


def test_a_provider_is_told_by_its_method() -> None:
    assert isinstance(Budget(), ReleasePolicyProvider)
    assert not isinstance(Silent(), ReleasePolicyProvider)
