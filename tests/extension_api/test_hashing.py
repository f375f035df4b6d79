"""One text and one hash for equal values."""

from __future__ import annotations

import hashlib
import json
from datetime import date
from typing import Any

import pytest
from deerflow_extension_api import ContentKind, canonical_hash, canonical_json
from hypothesis import given
from hypothesis import strategies as st

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(codec="utf-8") | st.characters(categories=["Cs"]), max_size=10)
JSON = st.recursive(
    SCALARS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def with_reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: with_reversed_keys(value[key]) for key in reversed(value)}
    return [with_reversed_keys(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": [1, 2.5, None, True], "a": {}}, '{"a":{},"b":[1,2.5,null,true]}'),
        ("Grüße, 世界 🦌", '"Grüße, 世界 🦌"'),
        ((1, (2,)), "[1,[2]]"),
        ('"\n', '"\\"\\n"'),
        (ContentKind.MEMORY, '"memory"'),
        ({1: "a"}, '{"1":"a"}'),
    ],
)
def test_canonical_text(value: Any, text: str) -> None:
    assert canonical_json(value) == text


def test_a_hash_is_sha_256_of_the_text_in_utf_8() -> None:
    assert canonical_hash("é") == hashlib.sha256('"é"'.encode()).hexdigest()
    assert canonical_hash("") == hashlib.sha256(b'""').hexdigest()


@given(JSON)
def test_the_text_is_json_of_the_same_value(value: Any) -> None:
    assert json.loads(canonical_json(value)) == value


@given(JSON)
def test_the_order_of_keys_does_not_count(value: Any) -> None:
    assert canonical_json(with_reversed_keys(value)) == canonical_json(value)
    assert canonical_hash(with_reversed_keys(value)) == canonical_hash(value)


@given(JSON)
def test_reading_the_text_and_writing_it_again_changes_nothing(value: Any) -> None:
    assert canonical_json(json.loads(canonical_json(value))) == canonical_json(value)


@given(TEXT, TEXT)
def test_text_never_fails_and_different_text_has_a_different_hash(one: str, other: str) -> None:
    assert (canonical_hash(one) == canonical_hash(other)) == (one == other)


def test_a_lone_surrogate_is_encoded_as_it_is() -> None:
    assert canonical_hash("\ud800") == hashlib.sha256(b'"\xed\xa0\x80"').hexdigest()


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, b"x", date(2026, 1, 1), {("a",): 1}, {"a": 1, 2: 3}, int]
)
def test_what_json_cannot_hold_is_a_type_error(value: Any) -> None:
    for function in (canonical_json, canonical_hash):
        with pytest.raises(TypeError):
            function([value])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinities_are_value_errors(value: float) -> None:
    for function in (canonical_json, canonical_hash):
        with pytest.raises(ValueError, match="JSON"):
            function({"value": value})


def test_a_value_that_contains_itself_is_a_value_error() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(ValueError, match="Circular"):
        canonical_json(value)
