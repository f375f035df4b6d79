"""Environment variables in configuration values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deerflow.config import config_from, load_config
from deerflow.errors import ConfigError


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "WORD": "hello",
        "NUMBER": "17",
        "YES": "true",
        "EMPTY": "",
        "LOOKS": "$WORD",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("UNSET", raising=False)


def expanded(value: Any) -> Any:
    return config_from({"plugins": [{"use": "a:b", "config": {"it": value}}]}).plugins[0].config["it"]


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("$WORD", "hello"),
        ("${WORD}", "hello"),
        ("a-$WORD-${WORD}b", "a-hello-hellob"),
        ("${UNSET:-other}", "other"),
        ("${EMPTY:-other}", "other"),
        ("${UNSET:-}", ""),
        ("$EMPTY", ""),
        ("${WORD:-other}", "hello"),
        ("$$WORD", "$WORD"),
        ("$$$WORD", "$hello"),
        ("$$$$", "$$"),
        ("$LOOKS", "$WORD"),
        ("${UNSET:-$WORD}", "$WORD"),
        ("costs $5", "costs $5"),
        ("^end$", "^end$"),
        ("a$|b", "a$|b"),
    ],
)
def test_references_are_replaced_once(text: str, result: str) -> None:
    value = expanded(text)
    assert value == result
    assert type(value) is str


def test_references_are_replaced_at_every_depth_but_not_in_keys() -> None:
    assert expanded({"$WORD": [{"x": ["$WORD", 5, None]}]}) == {"$WORD": [{"x": ["hello", 5, None]}]}


def test_comments_are_no_values(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("# $UNSET ${\ntitle: {max_words: 2}  # ${UNSET}\n")
    assert load_config(path).title.max_words == 2


def test_unset_variables_are_named_with_their_fields_beside_other_faults() -> None:
    data = {
        "models": [{"name": "m", "use": "a:b", "api_key": "$UNSET"}],
        "title": {"max_chars": "$UNSET", "max_words": 0},
    }
    with pytest.raises(ConfigError) as caught:
        config_from(data)
    hint = "environment variable UNSET is not set; set it, write ${UNSET:-default}, or $$ for a dollar"
    assert str(caught.value).splitlines() == [
        f"models[0].api_key: {hint}",
        f"title.max_chars: {hint}",
        "title.max_words: 0 is not allowed; allowed: a whole number from 1",
    ]


@pytest.mark.parametrize("text", ["${WORD", "${}", "${2X}", "${WORD:-${UNSET}}", "${WORD-x}"])
def test_broken_references_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"plugins\[0\]\.config\.it: has a broken reference"):
        expanded(text)


def test_variables_may_hold_numbers_and_flags_while_written_text_may_not() -> None:
    config = config_from(
        {
            "title": {"max_words": "$NUMBER", "enabled": "${UNSET:-false}"},
            "memory": {"enabled": "$YES", "debounce_seconds": "${UNSET:-0.5}"},
            "token_budget": {"max_input_tokens": "${UNSET:-}"},
            "database": {"backend": "${UNSET:-memory}", "url": "$EMPTY"},
        }
    )
    assert (config.title.max_words, config.title.enabled) == (17, False)
    assert (config.memory.enabled, config.memory.debounce_seconds) == (True, 0.5)
    assert config.token_budget.max_input_tokens is None
    assert (config.database.backend, config.database.url) == ("memory", None)
    with pytest.raises(ConfigError, match=r"max_words: '\$WORD' is not allowed"):
        config_from({"title": {"max_words": "$WORD"}})
    with pytest.raises(ConfigError, match="max_words: '17' is not allowed"):
        config_from({"title": {"max_words": "17"}})


def test_text_fields_keep_numbers_from_variables_as_text() -> None:
    config = config_from({"models": [{"name": "$NUMBER", "use": "a:b", "api_key": "$NUMBER"}]})
    assert config.models[0].name == "17"
    assert config.models[0].fresh_kwargs() == {"api_key": "17"}
    assert type(config.models[0].fresh_kwargs()["api_key"]) is str


def test_the_mapping_that_was_given_stays_as_it_is() -> None:
    data = {"plugins": [{"use": "a:b", "config": {"it": ["$WORD"]}}]}
    config_from(data)
    assert data == {"plugins": [{"use": "a:b", "config": {"it": ["$WORD"]}}]}
