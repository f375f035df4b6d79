"""The rules of the scripted model: what is said to which message."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

_SLOT = re.compile(r"\{(prompt|tool_results)\}")

Delay = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ScriptedToolCall(_Part):
    """One call of a tool; without `id` the model makes one that is unique in the conversation."""

    name: Annotated[str, Field(min_length=1)]
    args: dict[str, Any] = Field(default_factory=dict)
    id: str | None = None


class ScriptedTurn(_Part):
    """One AI message: text, tool calls or both, or an error; after a delay where one is given."""

    text: str | None = None
    tool_calls: tuple[ScriptedToolCall, ...] = ()
    error: str | None = None
    delay_seconds: Delay = 0.0

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        answers = self.text is not None or bool(self.tool_calls)
        if answers and self.error is not None:
            raise ValueError("a turn with error has neither text nor tool_calls")
        if not answers and self.error is None and not self.delay_seconds:
            raise ValueError("a turn has one of text, tool_calls, error, delay_seconds")
        return self


class ScriptedRule(_Part):
    """The turns that follow a human message in which `when` is found; without `when`, any message."""

    when: str = ""
    turns: Annotated[tuple[ScriptedTurn, ...], Field(min_length=1)]

    @field_validator("when")
    @classmethod
    def _is_an_expression(cls, when: str) -> str:
        try:
            re.compile(when)
        except re.error as error:
            raise ValueError(f"{when!r} is no regular expression: {error}") from error
        return when


Rules = Annotated[tuple[ScriptedRule, ...], BeforeValidator(lambda value: () if value is None else value)]


def find_turn(rules: tuple[ScriptedRule, ...], prompt: str, turn_index: int) -> ScriptedTurn | None:
    """Return the turn of the first rule found in `prompt`, its last one from then on; else `None`."""
    for rule in rules:
        if re.search(rule.when, prompt):
            return rule.turns[min(turn_index, len(rule.turns) - 1)]
    return None


def fill(value: Any, prompt: str, tool_results: str) -> Any:
    """Return `value` with `{prompt}` and `{tool_results}` replaced in every string, keys excepted.

    Other braces are text, and so is what was put in.
    """
    texts = {"prompt": prompt, "tool_results": tool_results}
    if isinstance(value, str):
        return _SLOT.sub(lambda match: texts[match[1]], value)
    if isinstance(value, dict):
        return {key: fill(item, prompt, tool_results) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [fill(item, prompt, tool_results) for item in value]
    return value
