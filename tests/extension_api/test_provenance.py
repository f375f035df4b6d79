"""Marks on injected messages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from deerflow_extension_api import (
    MESSAGE_CONTENT_KIND_KEY,
    MESSAGE_PRODUCER_ENTITY_ID_KEY,
    MESSAGE_PRODUCER_KIND_KEY,
    PROVENANCE_KEYS,
    ContentKind,
    MessageProvenance,
    provenance_kwargs,
    read_provenance,
)
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage, messages_from_dict, messages_to_dict

GOOD = {MESSAGE_CONTENT_KIND_KEY: "memory", MESSAGE_PRODUCER_KIND_KEY: "acme"}


class Hostile:
    @property
    def additional_kwargs(self) -> Any:
        raise RuntimeError("no reading")


@given(st.sampled_from(ContentKind), st.text(), st.none() | st.text())
def test_what_was_written_is_read_back(kind: ContentKind, producer: str, entity_id: str | None) -> None:
    marks = provenance_kwargs(kind, producer, producer_entity_id=entity_id)
    message = HumanMessage("x", additional_kwargs={"other": 1, **marks})
    assert read_provenance(message) == MessageProvenance(kind, producer, entity_id)


def test_the_marks_are_plain_text_under_the_three_keys() -> None:
    marks = provenance_kwargs(ContentKind.MEMORY, "acme", producer_entity_id="fact")
    assert set(marks) == PROVENANCE_KEYS
    assert {type(text) for text in marks.values()} == {str}


def test_no_entity_is_no_mark() -> None:
    assert provenance_kwargs(ContentKind.MEMORY, "acme") == GOOD


def test_marks_survive_a_stored_message() -> None:
    message = HumanMessage("x", additional_kwargs=provenance_kwargs(ContentKind.SKILL_BODY, "skills"))
    (restored,) = messages_from_dict(messages_to_dict([message]))
    assert read_provenance(restored) == MessageProvenance(ContentKind.SKILL_BODY, "skills")
    assert read_provenance(restored).content_kind is ContentKind.SKILL_BODY


def test_an_unknown_kind_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="rumour"):
        provenance_kwargs("rumour", "acme")


@pytest.mark.parametrize(
    "marks",
    [
        None,
        "text",
        {},
        {"other": "x"},
        {MESSAGE_CONTENT_KIND_KEY: "memory"},
        {MESSAGE_PRODUCER_KIND_KEY: "acme"},
        {**GOOD, MESSAGE_CONTENT_KIND_KEY: "rumour"},
        {**GOOD, MESSAGE_CONTENT_KIND_KEY: ["memory"]},
        {**GOOD, MESSAGE_CONTENT_KIND_KEY: None},
        {**GOOD, MESSAGE_PRODUCER_KIND_KEY: 7},
        {**GOOD, MESSAGE_PRODUCER_KIND_KEY: None},
        {**GOOD, MESSAGE_PRODUCER_ENTITY_ID_KEY: 7},
    ],
    ids=repr,
)
def test_absent_or_malformed_marks_are_no_provenance(marks: Any) -> None:
    assert read_provenance(SimpleNamespace(additional_kwargs=marks)) is None


@pytest.mark.parametrize("message", [None, "text", object(), GOOD, Hostile()], ids=lambda m: type(m).__name__)
def test_what_is_no_message_has_no_provenance(message: Any) -> None:
    assert read_provenance(message) is None
