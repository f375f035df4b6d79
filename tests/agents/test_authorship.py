from __future__ import annotations

from typing import Any

import pytest
from deerflow_extension_api import ContentKind, provenance_kwargs
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from deerflow.agents.authorship import added_messages, is_from_person, is_summary

SUMMARY = HumanMessage("so far", id="s", additional_kwargs={"lc_source": "summarization"})
ANSWER = AIMessage("yes", id="a")


def test_a_person_says_what_is_neither_injected_nor_a_summary() -> None:
    marks = provenance_kwargs(ContentKind.MIDDLEWARE_INJECTION, "goal")
    assert is_from_person(HumanMessage("hello")) and is_summary(SUMMARY)
    others = [SUMMARY, ANSWER, SystemMessage("be kind"), HumanMessage("go on", additional_kwargs=marks)]
    assert not any(map(is_from_person, others))


@pytest.mark.parametrize(
    "update",
    [
        {"messages": [ANSWER]},
        [{"messages": [ANSWER]}, {"messages": [SUMMARY, RemoveMessage(id="old")]}],
        {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("old", id="old"), ANSWER]},
    ],
    ids=["one", "with a compaction", "written anew"],
)
def test_only_what_is_new_and_said_was_added(update: Any) -> None:
    assert list(added_messages(update, lambda: {"old"})) == [ANSWER]


@pytest.mark.parametrize(
    "update", [None, "text", {"messages": None}, {"other": [ANSWER]}, [None], {"messages": ["x"]}]
)
def test_an_update_may_hold_no_messages(update: Any) -> None:
    assert list(added_messages(update)) == []
