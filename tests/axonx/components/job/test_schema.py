"""Arguments that JSON cannot hold, and what JSON Schema says of the others."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from axonx.components.job.schema import AGENT_DEPTH_SCHEMA, ArgumentSchema
from axonx.errors import InvalidArgumentsError

PARAMETERS = {
    "type": "object",
    "properties": {
        "number": {"type": "number"},
        "integer": {"type": "integer"},
        "nullable": {"type": ["string", "null"]},
        "colour": {"enum": ["red", 1]},
        "mail": {"type": "string", "format": "email"},
        "any": {},
        "deep": {"properties": {"items": {"type": "array", "items": {"type": "integer"}}}},
    },
    "additionalProperties": False,
}


@pytest.fixture
def schema() -> ArgumentSchema:
    return ArgumentSchema("j", PARAMETERS, {"agent_depth": AGENT_DEPTH_SCHEMA})


@pytest.mark.parametrize(
    "arguments",
    [
        {"integer": 1.0},
        {"nullable": None},
        {"mail": "formats are not checked"},
        {"any": threading.Lock()},
        {"any": {"deep": [b"bytes", {1: 2}]}},
        {"any": "\ud800"},
        {"any": float("nan")},
        {"deep": {"items": (1, 2)}},
    ],
)
def test_what_fits_is_accepted(schema: ArgumentSchema, arguments: dict[str, Any]) -> None:
    assert schema.check_arguments(arguments) is arguments


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"integer": True}, "integer: True is not of type 'integer'"),
        ({"nullable": 1}, "nullable: 1 is not of type 'null', 'string'"),
        ({"nullable": threading.Lock()}, "nullable: a lock is not a JSON value that the schema allows here"),
        ({"colour": "blue"}, "colour: 'blue' is not one of ['red', 1]"),
        ({"deep": {"items": [1, "x"]}}, "deep.items.1: 'x' is not of type 'integer'"),
        (
            {"deep": {"items": [1, b"x"]}},
            "deep.items.1: a bytes is not a JSON value that the schema allows here",
        ),
        ({"number": float("nan")}, "number: a float is not a JSON value that the schema allows here"),
        (
            {"number": float("inf"), "any": b""},
            "number: a float is not a JSON value that the schema allows here",
        ),
        ({"any": b"", "number": "x"}, "number: 'x' is not of type 'number'"),
        ({"any": b"", "other": 1}, "Additional properties are not allowed ('other' was unexpected)"),
        ({"mail": "\ud800"}, "mail: a str is not a JSON value that the schema allows here"),
    ],
)
def test_what_does_not_fit_names_the_place(
    schema: ArgumentSchema, arguments: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        schema.check_arguments(arguments)
    assert str(caught.value) == f"Invalid arguments for job 'j': {problem}"


def test_a_long_value_is_shown_in_part(schema: ArgumentSchema) -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        schema.check_arguments({"number": "x" * 100_000})
    assert len(str(caught.value)) < 400


def test_a_cycle_is_no_argument(schema: ArgumentSchema) -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(InvalidArgumentsError, match="not JSON"):
        schema.check_arguments({"any": cycle})


def test_system_values_have_the_defaults_of_their_schema(schema: ArgumentSchema) -> None:
    assert schema.check_system(None) == {"agent_depth": 0}
    assert schema.check_system({"agent_depth": 2}) == {"agent_depth": 2}
    with pytest.raises(ValueError, match="agent_depth: -1 is less than the minimum of 0"):
        schema.check_system({"agent_depth": -1})
