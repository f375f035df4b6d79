"""From model records to chat models."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from deerflow.config import AppConfig, config_from
from deerflow.errors import ConfigError
from deerflow.models import ScriptedChatModel, build_chat_model, warn_of_missing_models

SOURCE = """
from deerflow.models import ScriptedChatModel

NUMBER = 5
NOTHING = None


class Thinking(ScriptedChatModel):
    thinking_enabled: bool | None = None
    reasoning_effort: str | None = None


def takes_all(**kwargs):
    return Thinking(model_name=repr(sorted(kwargs.items())))


def takes_effort(reasoning_effort=None):
    return Thinking(reasoning_effort=reasoning_effort)


def changes(rules):
    rules.append({"turns": [{"text": "a"}]})
    return ScriptedChatModel(rules=rules)


async def coroutine():
    return ScriptedChatModel()


def text():
    return "no model"


def fails(api_key):
    raise RuntimeError("no route")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "some_models.py").write_text(SOURCE)
    (tmp_path / "broken_models.py").write_text("1 / 0")
    (tmp_path / "needy_models.py").write_text("import not_there_at_all")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("some_models", "broken_models", "needy_models"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "some_models"


def config(use: str, **keys: Any) -> AppConfig:
    return config_from({"models": [{"name": "first", "use": "a:b"}, {"name": "m", "use": use, **keys}]})


def fault(use: str, **keys: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        build_chat_model(config(use, **keys), "m")
    return str(caught.value)


def test_default_is_the_offline_demo_agent() -> None:
    model = build_chat_model(AppConfig())
    assert isinstance(model, ScriptedChatModel)
    assert model.rules == ()
    assert "offline demo agent" in build_chat_model(config_from({"models": []}), "offline").invoke("hi").text


def test_first_record_is_the_default() -> None:
    records = [
        {"name": n, "use": "deerflow.models:ScriptedChatModel", "rules": [{"turns": [{"text": n}]}]}
        for n in "ab"
    ]
    both = config_from({"models": records})
    assert build_chat_model(both).invoke("x").text == "a"
    assert build_chat_model(both, "b").invoke("x").text == "b"


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="model 'x' is not configured; known: 'first', 'm'"):
        build_chat_model(config("a:b"), "x")


def test_host_keys_are_kept_from_the_model(module: str) -> None:
    keys = {
        "display_name": "D",
        "supports_vision": True,
        "supports_thinking": True,
        "max_input_tokens": 9,
        "x": 1,
    }
    model = build_chat_model(config(f"{module}:takes_all", **keys), "m")
    assert model.model_name == "[('x', 1)]"  # type: ignore[attr-defined]
    assert model.profile is not None
    assert model.profile["max_input_tokens"] == 9


def test_keyword_arguments_belong_to_each_model(module: str) -> None:
    both = config(f"{module}:changes", rules=[])
    build_chat_model(both, "m")
    assert len(build_chat_model(both, "m").rules) == 1  # type: ignore[attr-defined]


def test_key_that_the_class_does_not_know_is_named(caplog: pytest.LogCaptureFixture) -> None:
    keys = {"rulez": [], "suports_vision": True, "xyz": 1, "metadata": {}}
    build_chat_model(config("deerflow.models:ScriptedChatModel", **keys), "m")
    use = "deerflow.models:ScriptedChatModel"
    assert sorted(caplog.messages) == [
        f"models[1].rulez: {use} has no such field; did you mean 'rules'?",
        f"models[1].suports_vision: {use} has no such field; did you mean 'supports_vision'?",
        f"models[1].xyz: {use} has no such field",
    ]


@pytest.mark.parametrize("target", ["Thinking", "takes_all"])
def test_wishes_reach_models_that_support_thinking(module: str, target: str) -> None:
    thinks = config(f"{module}:{target}", supports_thinking=True)
    model: Any = build_chat_model(thinks, "m", thinking_enabled=True, reasoning_effort="low")
    seen = (model.thinking_enabled, model.reasoning_effort)
    assert (
        seen == (True, "low") or "('reasoning_effort', 'low'), ('thinking_enabled', True)" in model.model_name
    )


def test_wishes_do_not_reach_other_models(module: str) -> None:
    model: Any = build_chat_model(
        config(f"{module}:Thinking"), "m", thinking_enabled=True, reasoning_effort="low"
    )
    assert (model.thinking_enabled, model.reasoning_effort) == (None, None)


def test_wish_that_a_factory_does_not_take_is_left_out_with_a_warning(
    module: str, caplog: pytest.LogCaptureFixture
) -> None:
    thinks = config(f"{module}:takes_effort", supports_thinking=True)
    model: Any = build_chat_model(thinks, "m", thinking_enabled=True, reasoning_effort="low")
    assert model.reasoning_effort == "low"
    assert "takes no thinking_enabled" in caplog.text


def test_real_provider_class_takes_its_keys(caplog: pytest.LogCaptureFixture) -> None:
    keys = {"model": "gpt-x", "api_key": "k", "base_url": "http://127.0.0.1:1/v1", "supports_thinking": True}
    model: Any = build_chat_model(config("langchain_openai:ChatOpenAI", **keys), "m", reasoning_effort="low")
    assert (model.model_name, model.reasoning_effort) == ("gpt-x", "low")
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("use", "text"),
    [
        ("some_models", "is not of the form module:attribute"),
        ("langchain_nowhere:Chat", "run: pip install langchain-nowhere"),
        ("needy_models:X", "needs module 'not_there_at_all'"),
        ("broken_models:X", "cannot be imported: ZeroDivisionError: division by zero"),
        ("deerflow.nowhere:X", "names no module"),
        ("some_models:Thinkin", "has no attribute 'Thinkin'; did you mean 'Thinking'?"),
        ("some_models:NUMBER", "is a int; name a class or factory"),
        ("some_models:NOTHING", "is a NoneType; name a class or factory"),
        ("some_models:text", "gave a str; name a LangChain chat model class or a factory of one"),
        ("some_models:coroutine", "gave a coroutine"),
    ],
)
@pytest.mark.usefixtures("module")
def test_model_that_cannot_be_found_is_named_with_the_edit(use: str, text: str) -> None:
    message = fault(use)
    assert message.startswith(f"models[1].use (model 'm'): {use!r} ")
    assert text in message


@pytest.mark.usefixtures("module")
def test_models_that_are_not_there_are_warned_of_before_anybody_asks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    uses = ["some_models:Thinking", "some_models:Thinkin", "not_there_at_all:X", "some_models:fails"]
    warn_of_missing_models(config_from({"models": [{"name": use, "use": use} for use in uses]}))
    first, second = caplog.messages
    assert first.startswith("models[1].use") and "did you mean 'Thinking'?" in first
    assert second.startswith("models[2].use") and "pip install not-there-at-all" in second


def test_refused_keys_are_named_without_their_values(module: str) -> None:
    message = fault("deerflow.models:ScriptedChatModel", rules=[{"when": "(", "turns": [{"txt": "s3cret"}]}])
    assert "models[1].rules[0].when: " in message
    assert "models[1].rules[0].turns[0].txt: " in message
    assert "s3cret" not in message
    message = fault(f"{module}:fails", api_key="s3cret")
    assert "cannot be built: RuntimeError: no route; its keys are: api_key" in message
    assert "s3cret" not in message
