"""`--field value` pairs."""

from __future__ import annotations

from typing import Any

import pytest

from axonx.cli.fields import FieldError, parse_fields


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("null", None),
        ("true", True),
        ("false", False),
        ("3", 3),
        ("-3", -3),
        ("-1.5e3", -1500.0),
        ('"3"', "3"),
        ("[1, {}]", [1, {}]),
        ('{"a": null}', {"a": None}),
        ("text", "text"),
        ("", ""),
        ("007", "007"),
        ("True", "True"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("1e999", "1e999"),
        ("[1,", "[1,"),
        ("[" * 100_000, "[" * 100_000),
        ("9" * 5000, "9" * 5000),
        ("2024-01-01", "2024-01-01"),
    ],
)
def test_a_value_is_json_where_it_can_be_and_text_else(raw: str, value: Any) -> None:
    found = parse_fields(["--a", raw])["a"]
    assert found == value
    assert type(found) is type(value)


def test_dots_nest_and_an_equals_sign_joins() -> None:
    tokens = ["--a.b", "1", "--a.c.d=x=y", "--e=--f", "--g", "-h"]
    assert parse_fields(tokens) == {"a": {"b": 1, "c": {"d": "x=y"}}, "e": "--f", "g": "-h"}


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["a"], "expected --field VALUE, got 'a'"),
        (["--a", "1", "2"], "expected --field VALUE, got '2'"),
        (["-a", "1"], "expected --field VALUE"),
        (["--", "1"], "expected --field VALUE"),
        (["--=1"], "expected --field VALUE"),
        (["--a"], "--a has no value"),
        (["--a", "--b", "1"], "--a has no value; write --a VALUE, or --a=VALUE"),
        (["--a", "1", "--a", "2"], "--a is given twice"),
        (["--a", "1", "--a.b", "2"], "--a.b: 'a' has a value already"),
        (["--a.b", "1", "--a", "2"], "--a is given twice"),
        (["--a..b", "1"], "a name must not be empty"),
        (["--.a", "1"], "a name must not be empty"),
    ],
)
def test_wrong_fields_are_refused(tokens: list[str], message: str) -> None:
    with pytest.raises(FieldError) as caught:
        parse_fields(tokens)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "raw", "value"),
    [
        ({"type": "string"}, "3", "3"),
        ({"type": "string"}, "true", "true"),
        ({"type": "string"}, '"3"', "3"),
        ({"type": "string"}, "null", "null"),
        ({"type": ["string", "null"]}, "null", None),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "null", None),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "3", "3"),
        ({"type": ["string", "integer"]}, "3", 3),
        ({"type": ["string", "integer"]}, "3.5", "3.5"),
        ({"oneOf": [{"type": "string"}, {"type": "object"}]}, "{}", {}),
        ({"type": "integer"}, "x", "x"),
        ({}, "3", 3),
        (True, "3", 3),
    ],
)
def test_text_stays_text_where_the_schema_wants_it(schema: Any, raw: str, value: Any) -> None:
    whole = {"type": "object", "properties": {"n": {"properties": {"a": schema}}}}
    assert parse_fields(["--n.a", raw], whole) == {"n": {"a": value}}
