"""Requests as observers receive them."""

from __future__ import annotations

from typing import Any

import pytest
from deerflow_extension_api import SystemModelRequest
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("given_messages", "messages"),
    [
        ("a prompt", ("a prompt",)),
        ("", ("",)),
        ([], ()),
        (["a", 1], ("a", 1)),
        (("a",), ("a",)),
        ((text for text in "ab"), ("a", "b")),
    ],
)
def test_messages_are_always_a_tuple(given_messages: Any, messages: tuple[Any, ...]) -> None:
    assert SystemModelRequest(given_messages).messages == messages
    assert type(SystemModelRequest(messages=messages).messages) is tuple


@given(st.one_of(st.text(), st.lists(st.integers())))
def test_a_request_made_again_from_its_own_messages_is_equal(messages: Any) -> None:
    request = SystemModelRequest(messages)
    assert SystemModelRequest(request.messages) == request


def test_a_later_change_to_the_host_s_list_is_not_seen() -> None:
    messages = ["question"]
    request = SystemModelRequest(messages)
    messages.append("answer")
    assert request.messages == ("question",)
