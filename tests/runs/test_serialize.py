"""From what a graph streams to JSON."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langgraph.types import Interrupt

from deerflow.runs.serialize import encode_json, replace_surrogates, to_json_value


def test_messages_are_dumped_as_langchain_dumps_them() -> None:
    message = AIMessage("hi", id="m1")
    assert to_json_value([message]) == [json.loads(message.model_dump_json())]


def test_interrupts_are_value_and_id() -> None:
    assert to_json_value((Interrupt(value={"ask": 1}, id="i1"),)) == [{"value": {"ask": 1}, "id": "i1"}]


@dataclass
class _Point:
    x: int


class _Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (_Point(1), {"x": 1}),
        ({1}, [1]),
        ({1: "a"}, {"1": "a"}),
        (float("nan"), None),
        ("\ud835", "�"),
        ({"\ud835": ["\ud835"]}, {"�": ["�"]}),
        (2**70, float(2**70)),
        (_Hostile(), "<_Hostile>"),
        (ValueError("bad"), "ValueError: bad"),
    ],
)
def test_odd_values_become_json(value: object, expected: object) -> None:
    assert to_json_value(value) == expected


def test_a_value_that_holds_itself_is_cut() -> None:
    value: list[object] = []
    value.append(value)
    assert b"nested too deeply" in encode_json(value)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
    max_leaves=20,
)


@given(_json)
def test_whatever_is_encoded_is_valid_utf8_json(value: object) -> None:
    json.loads(encode_json(value).decode("utf-8"))


@given(st.text(st.characters()))
def test_replacing_surrogates_changes_nothing_else(text: str) -> None:
    replaced = replace_surrogates(text)
    replaced.encode()
    if not any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        assert replaced == text


@pytest.mark.parametrize("length", [10, 700, 5_000, 300_000])
def test_what_is_kept_takes_no_more_memory_than_its_bytes(length: int) -> None:
    tracemalloc.start()
    try:
        kept = encode_json({"text": "x" * length})
        assert tracemalloc.get_traced_memory()[0] < len(kept) + 500
    finally:
        tracemalloc.stop()
