"""What a caller sends is cleaned, in whichever form it comes."""

from __future__ import annotations

from typing import Any

import pytest
from deerflow_extension_api import ContentKind, provenance_kwargs
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Command

from deerflow.errors import InvalidRequestError
from deerflow.runs.request import RunRequest, checked_id, cleaned

_MARKS = provenance_kwargs(ContentKind.MEMORY, "memory", producer_entity_id="me")


def _request(**fields: Any) -> RunRequest:
    return RunRequest(thread_id="0a5cf1f3-4b3a-4d7e-9d64-0a3c0c3e7a11", **fields)


def test_messages_lose_their_provenance_and_the_callers_own_stay_as_they_were() -> None:
    mine = HumanMessage("hello", id="1", additional_kwargs={**_MARKS, "mine": 1})
    graph_input = _request(input={"messages": [mine, ("user", "x")]}).graph_input()
    sent = graph_input["messages"][0]
    assert (sent.additional_kwargs, sent.content, sent.id) == ({"mine": 1}, "hello", "1")
    assert mine.additional_kwargs == {**_MARKS, "mine": 1}


def test_every_part_of_a_command_is_cleaned() -> None:
    said = {"messages": [AIMessage("x", additional_kwargs=_MARKS)]}
    command = {"update": said, "resume": {"answer": {**_MARKS, "mine": 1}}, "goto": "model"}
    cleaned_command = _request(command=command).graph_input()
    assert isinstance(cleaned_command, Command)
    assert cleaned_command.update["messages"][0].additional_kwargs == {}
    assert cleaned_command.resume == {"answer": {"mine": 1}}
    assert cleaned_command.goto == "model"


@pytest.mark.parametrize(
    ("fields", "resumed"),
    [
        ({"input": {"messages": []}}, False),
        ({"input": None}, True),
        ({"command": {"resume": "yes"}}, True),
        ({"command": {"resume": False}}, True),
        ({"command": {"update": {}}}, False),
    ],
)
def test_a_run_that_brings_nothing_new_or_an_answer_is_a_resumed_one(
    fields: dict[str, Any], resumed: bool
) -> None:
    assert _request(**fields).resumed is resumed


def test_what_is_nested_without_end_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    with pytest.raises(InvalidRequestError, match="nested more than 100 levels"):
        cleaned(endless)


def test_ids_have_one_form() -> None:
    assert checked_id("0A5CF1F3-4B3A-4D7E-9D64-0A3C0C3E7A11", "thread_id").startswith("0a5cf1f3-")
    for odd in ("", "x", "{0a5cf1f3-4b3a-4d7e-9d64-0a3c0c3e7a11}", "0a5cf1f34b3a4d7e9d640a3c0c3e7a11", None):
        with pytest.raises(InvalidRequestError, match="thread_id"):
            checked_id(odd, "thread_id")  # type: ignore[arg-type]
