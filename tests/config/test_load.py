"""Where the configuration comes from, and what a wrong one says."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from deerflow.config import AppConfig, config_from, load_config
from deerflow.errors import ConfigError


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEER_FLOW_CONFIG_PATH", raising=False)
    return tmp_path


def write(folder: Path, text: str, name: str = "config.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def fault_of(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(write(folder, text))
    return str(caught.value)


def test_nothing_found_means_the_defaults_and_no_extensions() -> None:
    config = load_config()
    assert config == AppConfig()
    assert config.plugins == ()
    assert config.model_names == ("offline",)


def test_argument_wins_over_variable_and_variable_over_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "title: {max_words: 1}")
    assert load_config().title.max_words == 1
    monkeypatch.setenv("DEER_FLOW_CONFIG_PATH", str(write(tmp_path, "title: {max_words: 2}", "named.yaml")))
    assert load_config().title.max_words == 2
    assert load_config(write(tmp_path, "title: {max_words: 3}", "given.yaml")).title.max_words == 3


def test_empty_variable_names_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEER_FLOW_CONFIG_PATH", "")
    assert load_config() == AppConfig()


def test_named_file_that_is_missing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"gone\.yaml: no such file"):
        load_config(tmp_path / "gone.yaml")
    monkeypatch.setenv("DEER_FLOW_CONFIG_PATH", str(tmp_path / "lost.yaml"))
    with pytest.raises(ConfigError, match=r"lost\.yaml: no such file \(named by DEER_FLOW_CONFIG_PATH\)"):
        load_config()


def test_directory_is_an_error_even_in_the_default_place(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").mkdir()
    with pytest.raises(ConfigError, match="is not a file"):
        load_config()


def test_every_wrong_field_has_its_line_with_file_path_value_and_what_is_allowed(tmp_path: Path) -> None:
    text = """
        title: {max_words: true}
        subagents: {admission: later, agents: {a: {max_turns: '5'}}}
        models: [{use: x:y}]
        plugins: [{use: a:b, requierd: true}, 5]
    """
    path = tmp_path / "config.yaml"
    assert fault_of(tmp_path, text).splitlines() == [
        f"{path}: models[0].name: is missing; write it, or take the record out",
        f"{path}: subagents.admission: 'later' is not allowed; allowed: 'queue' or 'reject'",
        f"{path}: subagents.agents.a.max_turns: '5' is not allowed; allowed: a whole number from 1",
        f"{path}: title.max_words: true is not allowed; allowed: a whole number from 1",
        f"{path}: plugins[0].requierd: is an unknown key; allowed: use, name, package, enabled, required, "
        "config, table_prefix; did you mean 'required'?",
        f"{path}: plugins[1]: 5 is not allowed; allowed: a mapping",
    ]


def test_secrets_are_not_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIDDEN", "s3cret")
    text = """
        database: {url: "mysql://me:s3cret@host/db"}
        auth: {mode: $HIDDEN}
        stream: {backend: "x$HIDDEN"}
        models: [{name: [s3cret], use: {api_key: s3cret}}]
    """
    fault = fault_of(tmp_path, text)
    assert "s3cret" not in fault
    assert "'mysql://***@host/db'" in fault
    assert "auth.mode: '$HIDDEN' is not allowed" in fault


def test_key_that_stands_twice_is_refused_with_its_line(tmp_path: Path) -> None:
    fault = fault_of(tmp_path, "title: {}\nplugins: []\nplugins: []\n")
    assert "line 3, column 1: the key 'plugins' stands twice" in fault
    assert "line 2" in fault_of(tmp_path, "title:\n  {max_words: 1, max_words: 2}\n")


def test_merge_keys_may_be_overridden(tmp_path: Path) -> None:
    text = "x: &base {max_words: 2, max_chars: 9}\ntitle: {<<: *base, max_words: 3}\n"
    config = load_config(write(tmp_path, text))
    assert (config.title.max_words, config.title.max_chars) == (3, 9)


@pytest.mark.parametrize("text", ["- a\n", "just text", "5"])
def test_file_must_hold_a_mapping(tmp_path: Path, text: str) -> None:
    assert "allowed: a mapping of sections" in fault_of(tmp_path, text)


def test_broken_yaml_is_named_with_its_line(tmp_path: Path) -> None:
    assert "config.yaml: line 2, column 7: expected" in fault_of(
        tmp_path, "title: {max_words: 1\nmemory: {}}{"
    )


def test_deep_nesting_and_wrong_encoding_are_configuration_errors(tmp_path: Path) -> None:
    fault_of(tmp_path, "[" * 20_000)
    (tmp_path / "latin.yaml").write_bytes(b"title: \xff\xfe")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_config(tmp_path / "latin.yaml")


@pytest.mark.parametrize("text", ["", "# nothing but words\n", "---\n"])
def test_empty_file_means_the_defaults(tmp_path: Path, text: str) -> None:
    assert load_config(write(tmp_path, text)) == AppConfig()


def test_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    assert load_config(write(tmp_path, "\ufefftitle: {max_words: 2}")).title.max_words == 2


def test_empty_sections_take_the_defaults_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = """
        models:
        plugins:
        tools:
        database:
        subagents: {max_turns: , agents: {general-purpose: , a: {tools: }}}
        extensions: {middlewares: }
    """
    with caplog.at_level(logging.WARNING):
        config = load_config(write(tmp_path, text))
    assert config.model_names == ("offline",)
    assert config.plugins == ()
    assert config.subagents.max_turns == 150
    empty = [line.split()[1] for line in caplog.messages if line.endswith("is empty; the default applies")]
    assert empty == [
        "models",
        "plugins",
        "tools",
        "database",
        "subagents.max_turns",
        "subagents.agents.general-purpose",
        "subagents.agents.a.tools",
        "extensions.middlewares",
    ]


def test_keys_that_may_be_null_are_no_empty_sections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    load_config(write(tmp_path, "title: {model_name: null}\ntoken_budget: {max_input_tokens: null}"))
    assert caplog.messages == []


def test_unknown_keys_are_named_in_warnings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = """
        titel: {}
        title: {max_word: 3}
        tools: [{use: "a:b", nmae: x}]
        subagents: {custom_agents: {r: {description: d, system_prompt: s, tool: []}}}
        5: x
        models: [{name: m, use: "a:b", temperature: 0.2}]
    """
    load_config(write(tmp_path, text))
    assert caplog.messages == [
        "configuration: unknown key titel is ignored; did you mean 'title'?",
        "configuration: unknown key title.max_word is ignored; did you mean 'max_words'?",
        "configuration: unknown key tools[0].nmae is ignored",
        "configuration: unknown key subagents.custom_agents.r.tool is ignored; did you mean 'tools'?",
        "configuration: unknown key 5 is ignored",
    ]


def test_configuration_is_taken_in_each_of_its_forms(tmp_path: Path) -> None:
    config = AppConfig()
    assert config_from(config) is config
    assert config_from(None) == config
    path = write(tmp_path, "title: {max_words: 2}", "x.yaml")
    for form in (path, str(path), {"title": {"max_words": 2}}):
        assert config_from(form).title.max_words == 2
    with pytest.raises(ConfigError, match="allowed: AppConfig, path, mapping or None"):
        config_from(5)  # type: ignore[arg-type]


def test_fault_in_a_mapping_has_no_file() -> None:
    with pytest.raises(ConfigError) as caught:
        config_from({"title": {"max_words": 0}})
    assert str(caught.value) == "title.max_words: 0 is not allowed; allowed: a whole number from 1"


def test_a_later_broken_save_changes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, "title: {max_words: 2}")
    config = load_config(path)
    write(tmp_path, "title: {max_wo")
    assert config.title.max_words == 2
