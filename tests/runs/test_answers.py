"""Answers are checked before a run begins with them."""

from __future__ import annotations

from typing import Any

import pytest

from deerflow.errors import InvalidRequestError
from deerflow.runs.answers import check_answer


@pytest.mark.parametrize(
    "answer",
    ["yes", 0, False, 2**64 - 1, -(2**63), {"decisions": [{"type": "approve"}]}, [{1: 2}], (1,)],
)
def test_what_a_checkpoint_holds_is_an_answer(answer: Any) -> None:
    check_answer(answer)


def _endless(*, holding: Any = None) -> list[Any]:
    value: list[Any] = [holding]
    value += [value, value]
    return value


def _deep(levels: int) -> Any:
    value: Any = "deep"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "the answer is None"),
        (2**64, "the answer is an integer beyond 64 bits, .*: 18446744073709551616;"),
        (-(2**63) - 1, "the answer is an integer beyond 64 bits, .*: -9223372036854775809;"),
        (10**9000, "of 29898 bits"),
        ({"a": ["b", {"c": 2**70}]}, r"the answer\['a'\]\[1\]\['c'\] is an integer beyond 64 bits"),
        ({"x" * 500: 2**70}, r"the answer\['x{49}\] is an integer"),
        (_endless(holding=2**70), r"the answer\[0\] is an integer beyond"),
        (_endless(), "cannot be kept in a checkpoint"),
        ([_endless()], "cannot be kept in a checkpoint"),
        (object(), "cannot be kept in a checkpoint: Type is not msgpack serializable: object"),
        ({1: "yes"}, r"keys that are no text: \[1\]"),
        (_deep(102), "more than 100 levels"),
    ],
    ids=[
        *("none", "high", "low", "huge", "place", "key", "in a circle", "circle", "circle within", "object"),
        *("keys", "deep"),
    ],
)
def test_what_would_end_the_run_is_refused_by_name(answer: Any, said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said):
        check_answer(answer)
