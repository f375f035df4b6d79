"""A contributed hook may ask a person: the run waits, and the resumed run ends as one without the hook."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from support.doors import open_door
from support.extensions import installed
from support.hostile import MIDDLEWARE_HOOKS, Witness, interrupting_middleware, surrounded
from support.hosts import delegation, scripted_config
from support.stepping import effects_of

from deerflow.errors import RunInterruptedError

_TALLY = {"name": "tally", "args": {"word": "{prompt}"}}
_RULES = [
    {"when": "^child of", "turns": [{"tool_calls": [_TALLY]}, {"text": "child: {tool_results}"}]},
    {
        "when": "",
        "turns": [
            {"tool_calls": [_TALLY]},
            {"tool_calls": [delegation("child of {prompt}", "call-1")]},
            {"text": "lead: {tool_results}"},
        ],
    },
]
_EXPECTED = "lead: tallied X\nTask Succeeded. Result: child: tallied child of X"
# Turns of a run: three model calls, and two of tools. LangGraph runs what was interrupted from its beginning.
_ASKED = {
    "before_agent": 1,
    "before_model": 3,
    "after_model": 3,
    "after_agent": 1,
    "wrap_model_call before": 3,
    "wrap_model_call after": 3,
    "wrap_tool_call before": 2,
    "wrap_tool_call after": 2,
}


@pytest.fixture(scope="module", params=["gateway", "client"])
def door(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    config = scripted_config(
        tmp_path_factory.mktemp("home"),
        _RULES,
        tools=[{"use": "support.stepping:tally"}],
        shutdown={"drain_seconds": 0.01},
    )
    with open_door(request.param, config) as door:
        yield door


@pytest.mark.parametrize("hook", MIDDLEWARE_HOOKS)
@pytest.mark.parametrize("door", ["gateway"], indirect=True)
def test_a_resumed_run_ends_as_one_without_the_hook(door: Any, hook: str) -> None:
    text = uuid4().hex
    with installed(surrounded(Witness(), Witness(), interrupting_middleware(hook, "lead"))) as loaded:
        told, asked = door.run_answering(text, "yes")
    assert (told.status, told.answer.replace(text, "X")) == ("success", _EXPECTED)
    assert asked == _ASKED[hook]
    repeated = 2 if hook == "wrap_tool_call after" else 1
    assert effects_of(text)[2:] == (repeated, repeated)
    assert not loaded.diagnostics


@pytest.mark.parametrize("hook", MIDDLEWARE_HOOKS)
@pytest.mark.parametrize("door", ["client"], indirect=True)
def test_the_embedded_caller_is_told_what_is_asked(door: Any, hook: str) -> None:
    with installed(surrounded(Witness(), Witness(), interrupting_middleware(hook, "lead"))):
        with pytest.raises(RunInterruptedError) as caught:
            door.client.chat(uuid4().hex)
    assert [interrupt["value"] for interrupt in caught.value.interrupts] == [{"question": hook}]


@pytest.mark.parametrize("hook", MIDDLEWARE_HOOKS)
def test_inside_a_subagent_nobody_can_be_asked(door: Any, hook: str) -> None:
    text = uuid4().hex
    with installed(surrounded(Witness(), Witness(), interrupting_middleware(hook, "subagent"))):
        told = door.run(text)
    assert told.status == "success"
    assert "Task failed. Error: PermissionError: it asked for a person's answer" in told.answer
