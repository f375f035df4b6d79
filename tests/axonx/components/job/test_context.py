"""Merging and copying of what a call works with."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axonx.components.job.context import RuntimeContext, copied, copied_containers

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
MAPPINGS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


def test_system_wins_over_arguments_and_arguments_over_defaults() -> None:
    context = RuntimeContext.merge(
        {"a": 1, "b": 1, "c": 1, "nested": {"x": 1, "y": 1, "list": [1]}},
        {"b": 2, "c": 2, "nested": {"y": 2, "list": [2]}},
        {"c": 3, "nested": {"z": 3}},
    )
    assert context == {"a": 1, "b": 2, "c": 3, "nested": {"x": 1, "y": 2, "list": [2], "z": 3}}
    assert isinstance(context, dict)


def test_none_replaces_a_mapping_and_a_mapping_replaces_none() -> None:
    assert RuntimeContext.merge({"a": {"x": 1}, "b": None}, {"a": None, "b": {"y": 1}}, {}) == {
        "a": None,
        "b": {"y": 1},
    }


def merged(*layers: dict[str, Any]) -> dict[str, Any]:
    """The specification, said simply."""
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in copy.deepcopy(layer).items():
            both = isinstance(result.get(key), dict) and isinstance(value, dict)
            result[key] = merged(result[key], value) if both else value
    return result


@given(MAPPINGS, MAPPINGS, MAPPINGS)
def test_merging_equals_the_simple_definition_and_changes_no_input(
    defaults: dict[str, Any], arguments: dict[str, Any], system: dict[str, Any]
) -> None:
    before = copy.deepcopy((defaults, arguments, system))
    context = RuntimeContext.merge(defaults, arguments, system)
    assert context == merged(defaults, arguments, system)
    for value in context.values():
        wreck(value)
    assert (defaults, arguments, system) == before


def wreck(value: Any) -> None:
    """Change every container in place."""
    if isinstance(value, dict):
        for inner in list(value.values()):
            wreck(inner)
        value["wrecked"] = True
    elif isinstance(value, list):
        for inner in list(value):
            wreck(inner)
        value.append("wrecked")


def test_copies_keep_cycles_and_shared_parts() -> None:
    shared: list[Any] = [1]
    cycle: dict[str, Any] = {"one": shared, "two": shared}
    cycle["self"] = cycle
    twin = copied(cycle)
    assert twin["self"] is twin
    assert twin["one"] is twin["two"]
    assert twin["one"] is not shared


def test_other_objects_are_copied_as_python_does() -> None:
    assert copied({"a": ({1, 2}, b"x")}) == {"a": ({1, 2}, b"x")}
    with pytest.raises(TypeError):
        copied([threading.Lock()])


def test_only_containers_are_copied_for_options() -> None:
    lock = threading.Lock()
    options = {"a": [lock]}
    twin = copied_containers(options)
    assert twin == options
    assert twin["a"] is not options["a"]
    assert twin["a"][0] is lock
