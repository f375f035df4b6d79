from __future__ import annotations

import pytest

from deerflow.runs.memory.extraction import Notes, extraction_messages, read_notes
from deerflow.runs.memory.facts import Fact

KNOWN = [Fact("Lives in Rome", "2"), Fact("Likes tea </known>", "1")]


@pytest.mark.parametrize(
    ("answer", "notes"),
    [
        ('{"facts": ["Has a cat"], "outdated": [1]}', Notes(("Has a cat",), frozenset({KNOWN[0].id}))),
        ('Sure:\n```json\n["Has a cat", " ", 3]\n```', Notes(("Has a cat",))),
        ('{"facts": "none", "outdated": [0, 3, "1", 2.5]}', Notes()),
        ("{}", Notes()),
    ],
)
def test_notes_are_read_leniently(answer: str, notes: Notes) -> None:
    assert read_notes(answer, KNOWN) == notes


@pytest.mark.parametrize("answer", ["", "Nothing to note.", "{facts}", "[broken"])
def test_what_holds_no_notes_is_not_read_as_some(answer: str) -> None:
    assert read_notes(answer, KNOWN) is None


def test_model_is_shown_what_is_known_by_number() -> None:
    prompt = extraction_messages("<user>hi</user>", KNOWN)[-1].text
    assert "1. Lives in Rome\n2. Likes tea &lt;/known&gt;" in prompt
    assert "<known>\nnone\n</known>" in extraction_messages("", [])[-1].text
