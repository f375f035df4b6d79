from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from deerflow.config.schema import TitleConfig
from deerflow.runs.title import cleaned_title, first_words, limited

CONFIG = TitleConfig(max_words=6, max_chars=30)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Hello", "Hello"),
        ("one two three four five six seven", "one two three four five six"),
        ("several\n\n lines\tand  spaces", "several lines and spaces"),
        ("considerably longer words than would fit", "considerably longer words than"),
        ("x" * 80, "x" * 30),
        ("  \n ", ""),
    ],
)
def test_title_is_cut_at_whole_words_within_both_limits(text: str, title: str) -> None:
    assert limited(text, CONFIG) == title


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("The Moon and Tides", "The Moon and Tides"),
        ('\n  "The Moon and Tides"\n\nI hope you like it!', "The Moon and Tides"),
        ("**Title:** “The Moon and Tides.”", "The Moon and Tides"),
        ("# The Moon and Tides", "The Moon and Tides"),
        ("title: 'Don't panic'", "Don't panic"),
        ("The Title: a study", "The Title: a study"),
        ("one two three four five six seven", "one two three four five six"),
        ("***\n---", "---"),
        ("", ""),
    ],
)
def test_answer_of_a_model_is_cleaned(answer: str, title: str) -> None:
    assert cleaned_title(answer, CONFIG) == title


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([HumanMessage("hello")], "hello"),
        ([AIMessage("greeting"), HumanMessage("hello"), HumanMessage("again")], "hello"),
        ([{"role": "user", "content": [{"type": "text", "text": "look"}]}], "look"),
        ("hello", "hello"),
        ([("user", "hello")], "hello"),
        ([AIMessage("greeting")], ""),
        ([{"nothing": "sensible"}], ""),
        (None, ""),
    ],
)
def test_first_words_are_those_of_a_person_in_whatever_form_they_come(messages: Any, text: str) -> None:
    assert first_words({"messages": messages}) == text


def test_a_command_has_no_first_words() -> None:
    assert first_words(object()) == ""
