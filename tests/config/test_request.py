"""What a request may ask for."""

from __future__ import annotations

from typing import Any

import pytest

from deerflow.config import (
    AppConfig,
    RequestOptions,
    clamp_recursion_limit,
    config_from,
    parse_request_options,
)
from deerflow.errors import InvalidRequestError

REVIEWER = {"description": "d", "system_prompt": "s"}


@pytest.fixture(scope="module")
def config() -> AppConfig:
    models = [{"name": "one", "use": "a:b"}, {"name": "two", "use": "a:b"}]
    return config_from({"models": models, "subagents": {"custom_agents": {"reviewer": REVIEWER}}})


def test_nothing_asked_for_gives_the_defaults(config: AppConfig) -> None:
    assert parse_request_options(None, config) == parse_request_options({}, config) == RequestOptions()
    assert RequestOptions().subagent_enabled is True


def test_everything_can_be_asked_for(config: AppConfig) -> None:
    asked = {
        "model_name": "two",
        "agent_name": "reviewer",
        "thinking_enabled": False,
        "reasoning_effort": "high",
        "subagent_enabled": False,
        "max_total_subagents": 50,
        "goal": " win ",
        "approve_tools": ["b", "a", "b"],
    }
    expected = RequestOptions("two", "reviewer", False, "high", False, 50, "win", ("a", "b"))
    assert parse_request_options(asked, config) == expected


def test_unknown_keys_and_nulls_are_dropped(config: AppConfig) -> None:
    asked = {"__secret": 1, "user_id": "x", "goal": None, "model_name": None, "subagent_enabled": None}
    assert parse_request_options(asked, config) == RequestOptions()


def test_equal_wishes_are_one_key(config: AppConfig) -> None:
    first = parse_request_options({"approve_tools": ["a", "b"]}, config)
    second = parse_request_options({"approve_tools": ("b", "a"), "goal": "  "}, config)
    assert hash(first) == hash(second)
    assert first == second


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("model_name", "three", "'three' is not allowed; allowed: a configured model: 'one', 'two'"),
        ("model_name", 5, "5 is not allowed"),
        ("model_name", ["one"], "a list is not allowed"),
        ("agent_name", "x", "'x' is not allowed; allowed: a configured custom agent: 'reviewer'"),
        ("thinking_enabled", "true", "'true' is not allowed; allowed: true or false"),
        ("subagent_enabled", 1, "1 is not allowed; allowed: true or false"),
        ("reasoning_effort", "huge", "allowed: an effort: 'none', 'minimal', 'low'"),
        ("max_total_subagents", 0, "0 is not allowed; allowed: a whole number in 1..50"),
        ("max_total_subagents", 51, "51 is not allowed"),
        ("max_total_subagents", True, "true is not allowed"),
        ("max_total_subagents", "5", "'5' is not allowed"),
        ("max_total_subagents", 5.0, "5.0 is not allowed"),
        ("goal", 5, "allowed: text"),
        ("approve_tools", "bash", "'bash' is not allowed; allowed: a list of tool names"),
        ("approve_tools", [1], "allowed: a list of tool names"),
        ("approve_tools", [""], "allowed: a list of tool names"),
    ],
)
def test_wrong_values_are_named(config: AppConfig, key: str, value: Any, text: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_request_options({key: value}, config)
    assert str(caught.value).startswith(f"{key}: ")
    assert text in str(caught.value)


def test_all_wrong_values_are_named_at_once(config: AppConfig) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_request_options({"goal": 5, "model_name": "x" * 1000}, config)
    lines = str(caught.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["model_name", "goal"]
    assert all(len(line) < 200 for line in lines)


def test_recursion_limit_is_passed_on_up_to_the_ceiling(
    config: AppConfig, caplog: pytest.LogCaptureFixture
) -> None:
    assert clamp_recursion_limit(None, config) == 1000
    assert clamp_recursion_limit(1, config) == 1
    assert clamp_recursion_limit(1000, config) == 1000
    assert caplog.messages == []


@pytest.mark.parametrize("value", [10**8, -1, 0, True, "50", 5.0, float("nan")])
def test_recursion_limit_out_of_range_is_the_configured_one_with_a_warning(
    config: AppConfig, caplog: pytest.LogCaptureFixture, value: Any
) -> None:
    assert clamp_recursion_limit(value, config) == 1000
    assert "recursion_limit" in caplog.text
