"""Fingerprints of assemblies."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from threading import Lock
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from deerflow_extension_api import AgentAssemblyDescriptor, MiddlewareDescriptor, ToolDescriptor
from hypothesis import given
from hypothesis import strategies as st

TOOLS = tuple(ToolDescriptor(name, "d", "s", "config") for name in ("search", "read", "write"))
MIDDLEWARES = (MiddlewareDescriptor("Retry", "host", {"max": 2}), MiddlewareDescriptor("Count", "acme"))
ASSEMBLY = AgentAssemblyDescriptor(
    namespace="lead",
    agent_name="lead_agent",
    requested_model=None,
    effective_model="offline",
    model_parameters={"temperature": 0.5},
    thinking_enabled=False,
    reasoning_effort=None,
    base_prompt_hash="p",
    tools=TOOLS,
    middlewares=MIDDLEWARES,
    deferred_tool_names=("one", "two", "three"),
    enabled_skills=("a", "b", "c"),
    effective_policies={"retry": {"max": 2}},
    build={"commit": "1"},
)

OTHER_BEHAVIOUR: dict[str, Any] = {
    "namespace": "subagent",
    "agent_name": "reviewer",
    "effective_model": "other",
    "model_parameters": {"temperature": 0.6},
    "thinking_enabled": True,
    "reasoning_effort": "high",
    "base_prompt_hash": "q",
    "tools": TOOLS[:2],
    "middlewares": MIDDLEWARES[::-1],
    "deferred_tool_names": ("one",),
    "enabled_skills": ("a",),
    "effective_policies": {"retry": {"max": 3}},
}


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass
class Rule:
    limit: Any


class Opaque:
    """A value of which nothing but its type is known."""


class Hostile(dict):
    def items(self) -> Any:
        raise RuntimeError("no reading")

    __iter__ = items


def with_policy(value: Any) -> str:
    return replace(ASSEMBLY, effective_policies={"policy": value}).fingerprint


def test_a_fingerprint_is_a_sha_256() -> None:
    assert len(bytes.fromhex(ASSEMBLY.fingerprint)) == 32


def test_a_fingerprint_is_computed_once() -> None:
    assembly = replace(ASSEMBLY)
    assert assembly.fingerprint is assembly.fingerprint
    assert assembly == ASSEMBLY


@pytest.mark.parametrize("field", OTHER_BEHAVIOUR)
def test_what_changes_behaviour_changes_the_fingerprint(field: str) -> None:
    assert replace(ASSEMBLY, **{field: OTHER_BEHAVIOUR[field]}).fingerprint != ASSEMBLY.fingerprint


@pytest.mark.parametrize("change", [{"build": {}}, {"build": {"x": Lock()}}, {"requested_model": "other"}])
def test_build_and_requested_model_do_not_count(change: dict[str, Any]) -> None:
    assert replace(ASSEMBLY, **change).fingerprint == ASSEMBLY.fingerprint


@pytest.mark.parametrize(
    "change", [{"description_hash": "e"}, {"schema_hash": "t"}, {"source": "mcp"}, {"mcp_server": "m"}]
)
def test_every_part_of_a_tool_counts(change: dict[str, Any]) -> None:
    tools = (replace(TOOLS[0], **change), *TOOLS[1:])
    assert replace(ASSEMBLY, tools=tools).fingerprint != ASSEMBLY.fingerprint


@pytest.mark.parametrize("change", [{"policy_parameters": {"max": 3}}, {"module": "m"}, {"extension": "a:b"}])
def test_every_part_of_a_middleware_counts(change: dict[str, Any]) -> None:
    middlewares = (replace(MIDDLEWARES[0], **change), *MIDDLEWARES[1:])
    assert replace(ASSEMBLY, middlewares=middlewares).fingerprint != ASSEMBLY.fingerprint


@given(
    st.permutations(TOOLS),
    st.permutations(ASSEMBLY.deferred_tool_names),
    st.permutations(ASSEMBLY.enabled_skills),
)
def test_the_order_of_tools_deferred_names_and_skills_does_not_count(
    tools: list[ToolDescriptor], deferred: list[str], skills: list[str]
) -> None:
    shuffled = replace(
        ASSEMBLY, tools=tuple(tools), deferred_tool_names=tuple(deferred), enabled_skills=tuple(skills)
    )
    assert shuffled.fingerprint == ASSEMBLY.fingerprint


@pytest.mark.parametrize(
    ("value", "equal", "different"),
    [
        ({"a", "b", "c"}, {"c", "b", "a"}, {"a", "b"}),
        (frozenset({1, "a"}), {"a", 1}, [1, "a"]),
        (b"a", bytearray(b"a"), b"b"),
        (Colour.RED, Colour.RED, Colour.BLUE),
        (Rule(1), Rule(1), Rule(2)),
        (Rule({1, 2}), Rule({2, 1}), Rule({1})),
        (PurePosixPath("/a"), PurePosixPath("/a"), PurePosixPath("/b")),
        (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC), date(2026, 1, 1)),
        (timedelta(1), timedelta(hours=24), timedelta(2)),
        (Decimal("1.5"), Decimal("1.5"), Decimal("1.6")),
        (UUID(int=1), UUID(int=1), UUID(int=2)),
        (float("nan"), float("nan"), float("inf")),
        ({1: "a", (2,): "b"}, {(2,): "b", 1: "a"}, {1: "b", (2,): "a"}),
        (MappingProxyType({"a": 1}), {"a": 1}, {"a": 2}),
        (len, len, print),
        (Opaque(), Opaque(), Rule),
        (Lock(), Lock(), Opaque()),
        (Hostile(a=1), Hostile(b=2), {}),
        ("\ud800", "\ud800", "\ud801"),
    ],
    ids=lambda value: type(value).__name__,  # steady: the processes of one test run have to agree on them
)
def test_a_policy_value_that_json_cannot_hold_still_has_a_steady_fingerprint(
    value: Any, equal: Any, different: Any
) -> None:
    assert with_policy(value) == with_policy(equal) != with_policy(different)


def test_a_value_that_json_cannot_hold_hides_nothing_beside_it() -> None:
    assert with_policy({"lock": Lock(), "max": 1}) != with_policy({"lock": Lock(), "max": 2})


def test_a_policy_that_contains_itself_in_several_places_has_a_fingerprint() -> None:
    policy: dict[str, Any] = {"max": 1}
    policy |= dict.fromkeys("abcd", policy)
    assert with_policy(policy) == with_policy(policy) != with_policy({"max": 1})


def nested(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = [value]
    return value


def test_a_policy_counts_down_to_its_sixtieth_level() -> None:
    assert with_policy(nested("a", 60)) != with_policy(nested("b", 60))


@pytest.mark.parametrize("levels", [100, 5000])
def test_a_very_deep_policy_has_a_fingerprint_that_stops_counting(levels: int) -> None:
    assert with_policy(nested("a", levels)) == with_policy(nested("b", levels))


def test_the_fingerprint_is_the_same_in_another_process() -> None:
    code = (
        "from deerflow_extension_api import *\n"
        "policies = {'set': {'a', 'b', 'c', 'd'}, 'type': dict, 'opaque': object()}\n"
        "print(AgentAssemblyDescriptor('n', None, None, None, {}, False, None, '', (), (), (), (), policies)"
        ".fingerprint)"
    )
    prints = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(prints) == 1
