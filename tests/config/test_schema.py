"""Sections and their values."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from deerflow.config import AppConfig, config_from
from deerflow.config.drift import section_in
from deerflow.config.fields import Count, Flag, Fraction, Section
from deerflow.errors import ConfigError, InvalidRequestError

DEFAULTS = {
    "subagents": {
        "timeout_seconds": 1800,
        "max_turns": 150,
        "max_total_per_run": 6,
        "max_running": 3,
        "max_queued": 64,
        "admission": "queue",
        "queue_timeout_seconds": 300,
        "token_budget": {
            "enabled": True,
            "max_tokens": 2_000_000,
            "max_input_tokens": None,
            "max_output_tokens": None,
            "warn_threshold": 0.7,
            "hard_stop_threshold": 1.0,
        },
        "agents": {},
        "custom_agents": {},
    },
    "token_budget": {
        "enabled": False,
        "max_tokens": 200_000,
        "max_input_tokens": None,
        "max_output_tokens": None,
        "warn_threshold": 0.8,
        "hard_stop_threshold": 1.0,
    },
    "summarization": {
        "enabled": True,
        "model_name": None,
        "trigger": ({"type": "tokens", "value": 32_000},),
        "keep": {"type": "messages", "value": 10},
    },
    "title": {"enabled": True, "model_name": None, "max_words": 6, "max_chars": 60},
    "memory": {
        "enabled": False,
        "model_name": None,
        "debounce_seconds": 30,
        "max_facts": 100,
        "max_injection_tokens": 2000,
    },
    "goal": {"max_continuations": 3, "model_name": None},
    "auth": {"mode": "none", "public_docs": False, "session_seconds": 604_800, "allowed_origins": ()},
    "model_retry": {"max_retries": 2, "initial_delay_seconds": 0.5},
    "shutdown": {"drain_seconds": 10},
    "logging": {"format": "text"},
    "plugins": (),
    "extensions": {"middlewares": (), "hook_timeout_seconds": 10},
}


def refused(data: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        config_from(data)
    return str(caught.value)


def test_defaults_are_the_documented_ones() -> None:
    config = AppConfig().model_dump()
    assert {key: config[key] for key in DEFAULTS} == DEFAULTS
    assert (config["database"]["backend"], config["stream"]["backend"]) == ("sqlite", "memory")
    assert [(m["name"], m["use"]) for m in config["models"]] == [
        ("offline", "deerflow.models:ScriptedChatModel")
    ]


def numbers() -> list[tuple[str, ...]]:
    """The path of every duration and size."""
    found: list[tuple[str, ...]] = []

    def walk(section: type[Section], path: tuple[str, ...]) -> None:
        for name, field in section.model_fields.items():
            if isinstance(field.default, int | float) and not isinstance(field.default, bool):
                found.append((*path, name))
            elif isinstance(field.annotation, type) and (inner := section_in(field.annotation)):
                walk(inner, (*path, name))

    walk(AppConfig, ())
    return found


@pytest.mark.parametrize("path", numbers(), ids=".".join)
@pytest.mark.parametrize("value", [math.inf, math.nan, -math.inf, True, "5", -1, [1]], ids=repr)
def test_numbers_are_finite_and_no_flags_or_texts(path: tuple[str, ...], value: Any) -> None:
    data: Any = value
    for part in reversed(path):
        data = {part: data}
    assert refused(data).startswith(".".join(path) + ": ")


@pytest.mark.parametrize(
    "path", [p for p in numbers() if p[-1] not in ("max_retries", "max_continuations")], ids=".".join
)
def test_durations_and_sizes_are_positive(path: tuple[str, ...]) -> None:
    data: Any = 0
    for part in reversed(path):
        data = {part: data}
    assert ": 0 is not allowed" in refused(data)


def test_counts_of_repetitions_may_be_zero() -> None:
    config = config_from({"model_retry": {"max_retries": 0}, "goal": {"max_continuations": 0}})
    assert (config.model_retry.max_retries, config.goal.max_continuations) == (0, 0)


@pytest.mark.parametrize("value", [1, 0, "yes", "true"])
def test_flags_are_true_or_false(value: Any) -> None:
    assert refused({"title": {"enabled": value}}).endswith("allowed: true or false")


def test_configuration_does_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        AppConfig().title.max_words = 3  # type: ignore[misc]


def test_model_names_are_unique() -> None:
    twice = [{"name": "m", "use": "a:b"}, {"name": "m", "use": "c:d"}]
    assert "models: a list is not allowed; allowed: one record per name; named twice: 'm'" in refused(
        {"models": twice}
    )


def test_sections_may_only_name_configured_models() -> None:
    data = {
        "models": [{"name": "m", "use": "a:b"}],
        "title": {"model_name": "x"},
        "goal": {"model_name": "m"},
        "subagents": {
            "agents": {"general-purpose": {"model": "y"}},
            "custom_agents": {"r": {"description": "d", "system_prompt": "s", "model": "z"}},
        },
    }
    assert refused(data).splitlines() == [
        "title.model_name: 'x' is not allowed; allowed: a configured model: 'm'",
        "subagents.agents.general-purpose.model: 'y' is not allowed; allowed: a configured model: 'm'",
        "subagents.custom_agents.r.model: 'z' is not allowed; allowed: a configured model: 'm'",
    ]


def test_further_keys_of_a_model_are_its_keyword_arguments() -> None:
    record = config_from(
        {"models": [{"name": "m", "use": "a:b", "supports_vision": True, "temperature": 0.5, "x": {"l": []}}]}
    ).models[0]
    kwargs = record.fresh_kwargs()
    assert kwargs == {"temperature": 0.5, "x": {"l": []}}
    kwargs["x"]["l"].append(1)
    assert record.fresh_kwargs()["x"] == {"l": []}


@pytest.mark.parametrize(
    ("size", "allowed"),
    [
        ({"type": "fraction", "value": 2}, "a fraction above 0 and up to 1"),
        ({"type": "tokens", "value": 0.5}, "a whole number from 1"),
        ({"type": "messages", "value": 0}, "a whole number from 1, or a fraction up to 1"),
        ({"type": "messages", "value": True}, "a whole number from 1, or a fraction up to 1"),
    ],
)
def test_lengths_of_conversation_fit_their_type(size: dict[str, Any], allowed: str) -> None:
    fault = refused({"summarization": {"keep": size}})
    assert fault.startswith("summarization.keep.value: ")
    assert fault.endswith(f"allowed: {allowed}")


def test_fraction_of_the_window_is_a_length() -> None:
    trigger = [{"type": "fraction", "value": 0.8}, {"type": "messages", "value": 50}]
    sizes = config_from({"summarization": {"trigger": trigger}}).summarization.trigger
    assert [(size.type, size.value) for size in sizes] == [("fraction", 0.8), ("messages", 50)]
    assert "at least one entry" in refused({"summarization": {"trigger": []}})


def test_warning_comes_before_the_stop() -> None:
    assert "token_budget" in refused({"token_budget": {"warn_threshold": 0.9, "hard_stop_threshold": 0.5}})
    data = {"subagents": {"agents": {"a": {"token_budget": {"hard_stop_threshold": 0.5}}}}}
    assert "for agent 'a' a warn_threshold up to its hard_stop_threshold" in refused(data)


class TestSubagents:
    def test_limits_without_overrides_are_the_sections_own(self) -> None:
        subagents = config_from({"subagents": {"max_turns": 7}}).subagents
        limits = subagents.limits_for("general-purpose")
        assert (limits.max_turns, limits.timeout_seconds, limits.model, limits.tools) == (7, 1800, None, None)
        assert limits.token_budget.model_dump() == subagents.token_budget.model_dump()

    def test_overrides_win_over_the_custom_agent_and_that_over_the_section(self) -> None:
        data = {
            "token_budget": {"max_input_tokens": 9, "max_output_tokens": 8},
            "agents": {"r": {"max_turns": 3, "token_budget": {"max_tokens": 5, "max_output_tokens": None}}},
            "custom_agents": {
                "r": {
                    "description": "d",
                    "system_prompt": "s",
                    "max_turns": 4,
                    "timeout_seconds": 60,
                    "tools": ["read_file"],
                    "token_budget": {"enabled": False, "max_tokens": 6},
                }
            },
        }
        limits = config_from({"subagents": data}).subagents.limits_for("r")
        assert (limits.max_turns, limits.timeout_seconds, limits.tools) == (3, 60, ("read_file",))
        budget = limits.token_budget
        assert (budget.enabled, budget.max_tokens, budget.warn_threshold) == (False, 5, 0.7)
        assert (budget.max_input_tokens, budget.max_output_tokens) == (9, None)

    def test_empty_list_of_tools_is_none_and_absent_is_all(self) -> None:
        agent = {"description": "d", "system_prompt": "s"}
        data = {"custom_agents": {"a": {**agent, "tools": []}, "b": agent}}
        subagents = config_from({"subagents": data}).subagents
        assert subagents.limits_for("a").tools == ()
        assert subagents.limits_for("b").tools is None

    def test_custom_agent_needs_description_and_prompt(self) -> None:
        fault = refused({"subagents": {"custom_agents": {"r": {}}}})
        assert "subagents.custom_agents.r.description: is missing" in fault
        assert "subagents.custom_agents.r.system_prompt: is missing" in fault


class TestStorage:
    def test_state_lies_in_the_home_folder(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.delenv("DEER_FLOW_HOME", raising=False)
        assert AppConfig().home == Path(".deer-flow")
        monkeypatch.setenv("DEER_FLOW_HOME", str(tmp_path))
        config = AppConfig()
        assert config.home == tmp_path
        assert config.database_url == f"sqlite:///{tmp_path}/deerflow.db"
        assert config.workspace_path("a-1") == tmp_path / "threads" / "a-1" / "workspace"

    @pytest.mark.parametrize("thread_id", ["", ".", "..", "../x", "a/b", "a\\b", "a\0", "x" * 129, "é"])
    def test_thread_id_cannot_lead_out_of_home(self, thread_id: str) -> None:
        with pytest.raises(InvalidRequestError, match="thread_id"):
            AppConfig().workspace_path(thread_id)

    def test_memory_has_no_url(self) -> None:
        assert config_from({"database": {"backend": "memory"}}).database_url is None

    @pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
    def test_postgres_is_accepted_in_its_short_form(self, scheme: str) -> None:
        database = {"backend": "postgres", "url": f"{scheme}://u:p@h/postgres"}
        assert config_from({"database": database}).database_url == "postgresql://u:p@h/postgres"

    @pytest.mark.parametrize(
        "section",
        [
            {"database": {"backend": "postgres"}},
            {"database": {"backend": "postgres", "url": "sqlite:///x"}},
            {"database": {"backend": "postgres", "url": "postgresql+asyncpg://h/x"}},
            {"database": {"url": "postgresql://h/x"}},
            {"database": {"url": "/file.db"}},
            {"stream": {"backend": "redis"}},
            {"stream": {"backend": "redis", "url": "http://h"}},
        ],
    )
    def test_url_fits_its_backend(self, section: dict[str, Any]) -> None:
        (name,) = section
        assert refused(section).startswith(f"{name}.url: ")

    def test_redis_urls_are_accepted(self) -> None:
        stream = {"backend": "redis", "url": "redis://localhost:6379/0"}
        assert config_from({"stream": stream}).stream.url == "redis://localhost:6379/0"


def test_number_types_say_what_is_allowed() -> None:
    class Probe(Section):
        count: Count = 0
        flag: Flag = False
        part: Fraction = 1

    with pytest.raises(ValueError) as caught:
        Probe.model_validate({"count": 1.5, "flag": None, "part": 1.5})
    for allowed in ("a whole number from 0", "true or false", "a number above 0 and up to 1"):
        assert allowed in str(caught.value)
