"""Whatever comes in as text or JSON can be stored, and means the same when it comes out."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.records import start_run

from deerflow.persistence import Database, UnstorableValueError
from deerflow.persistence.columns import clean_text, dump_json, load_json
from deerflow.persistence.containment import contains
from deerflow.runs.record import ThreadStatus

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | ANY_TEXT,
    lambda children: st.lists(children) | st.dictionaries(ANY_TEXT, children),
    max_leaves=10,
)


@given(ANY_TEXT)
def test_cleaned_text_is_utf8_without_nul(text: str) -> None:
    cleaned = clean_text(text)
    assert "\x00" not in cleaned
    assert cleaned.encode().decode() == cleaned
    assert clean_text(cleaned) == cleaned


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00")))
def test_good_text_is_left_as_it_is(text: str) -> None:
    assert clean_text(text) == text
    assert load_json(dump_json({text: [text]})) == {text: [text]}


@given(JSON_VALUES)
def test_any_json_value_can_be_stored(value: Any) -> None:
    dumped = dump_json(value)
    dumped.encode()
    assert "\\u0000" not in dumped.replace("\\\\", "")
    assert dump_json(load_json(dumped)) == dump_json(json.loads(dumped))


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ({"a": float("nan"), "b": [float("inf")]}, {"a": None, "b": [None]}),
        (["\ud83d\ude00", "\ude00\ud83d", "a\x00"], ["😀", "\ufffd\ufffd", "a\ufffd"]),
        ("\\u0000", "\\u0000"),
        ({1: "one", None: 2}, {"1": "one", "null": 2}),
        ((1, (2,)), [1, [2]]),
        (ThreadStatus.BUSY, "busy"),
        (2**80, float(2**80)),
    ],
)
def test_unusual_values_get_the_nearest_form(value: Any, stored: Any) -> None:
    assert load_json(dump_json(value)) == stored


@pytest.mark.parametrize("value", [object(), {"a": {1}}, [b"x"], {"deep": "\x00", "b": object()}])
def test_what_json_has_no_form_for_is_refused(value: Any) -> None:
    with pytest.raises(UnstorableValueError):
        dump_json(value)


def test_endless_values_are_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(UnstorableValueError):
        dump_json(endless)


@pytest.mark.parametrize(
    ("whole", "part", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {}}}, True),
        ([1, 2, [3]], [[3], 1], True),
        ([1, 2], [2, 2], True),
        ([1, 2], [3], False),
        ({"a": [1]}, {"a": 1}, False),
        ({"a": None}, {"a": None}, True),
        ({}, {"a": None}, False),
    ],
)
def test_containment_is_that_of_postgresql(whole: Any, part: Any, expected: bool) -> None:
    assert contains(whole, part) is expected


@pytest.fixture(params=["Asia/Shanghai", "America/New_York"])
def time_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


async def test_the_machines_time_zone_changes_nothing(time_zone: str, database: Database) -> None:
    run = await start_run(database, created_at=datetime(2026, 3, 8, 7, 30, tzinfo=UTC))
    kept = await database.stores.runs.get(run.run_id)
    assert kept is not None
    assert kept.created_at.isoformat() == "2026-03-08T07:30:00+00:00"
    view = await database.evidence.get_run_status(thread_id=run.thread_id, run_id=run.run_id)
    assert view is not None
    assert view.created_at == "2026-03-08T07:30:00+00:00"
