"""Text that fits everywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.agents.text import quoted, valid_text


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("plain", "plain"),
        ("größer 😀", "größer 😀"),
        ("\ud83d" + "\ude00", "😀"),
        ("a\ud835", "a\ufffd"),
        ("\ud835a\udc00", "\ufffda\ufffd"),
        ("\udc00\ud835", "\ufffd\ufffd"),
        ("\ufeffbom \ud800", "\ufeffbom \ufffd"),
        ("nul\0", "nul\ufffd"),
        ("", ""),
    ],
)
def test_what_no_encoding_takes_is_joined_or_replaced(text: str, valid: str) -> None:
    assert valid_text(text) == valid


@given(st.text(st.characters() | st.characters(categories=["Cs"])))
def test_every_text_becomes_valid_and_stays_so(text: str) -> None:
    valid = valid_text(text)
    assert valid.encode().decode() == valid
    assert "\0" not in valid
    assert valid_text(valid) == valid
    assert len(valid) <= len(text)


def test_quoted_text_is_one_bounded_line() -> None:
    assert quoted("a\nb") == "'a\\nb'"
    assert quoted("x" * 121) == "'" + "x" * 119 + "…'"
    assert quoted("\ud835") == "'\ufffd'"
    assert len(quoted("\n" * 500)) <= 122
