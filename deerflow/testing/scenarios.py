"""What can happen to a run, as scripts that any host of this package can play."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

FLAKY_MODEL_NAME: Final = "flaky"
STALL_SECONDS: Final = 60.0
MESSAGES_UNTIL_COMPACTION: Final = 6
MESSAGES_KEPT: Final = 2


@dataclass(frozen=True)
class Scenario:
    """Messages that are sent one after the other on one thread, with `context` as in a request.

    The last run is left to its end, or cancelled or shut down with its host while its model is being asked.
    """

    name: str
    messages: tuple[str, ...]
    context: Mapping[str, Any] = field(default_factory=dict)
    last_run: Literal["ends", "is cancelled", "is shut down"] = "ends"

    def __str__(self) -> str:
        return self.name


LEAD: Final = Scenario("lead", ("hello",))
"""One answer without tools."""

DELEGATION: Final = Scenario("delegation", ("delegate",))
"""Two subagents side by side, one of which calls a tool."""

BROKEN_TOOL: Final = Scenario("broken tool", ("use the broken tool",))
"""A tool that raises; the run goes on."""

FLAKY_MODEL: Final = Scenario("flaky model", ("hello",), {"model_name": FLAKY_MODEL_NAME})
"""A model call that succeeds when it is repeated."""

BROKEN_MODEL: Final = Scenario("broken model", ("break the model",))
"""A model call that cannot succeed; the run fails."""

COMPACTION: Final = Scenario("compaction", ("first", "second", "third", "fourth"))
"""A conversation whose older part is replaced by a summary."""

CANCELLATION: Final = Scenario("cancellation", ("stall",), last_run="is cancelled")
"""A run that is stopped while its model is being asked."""

SHUTDOWN: Final = Scenario("shutdown", ("stall",), last_run="is shut down")
"""A host that is closed while a model is being asked. It can be played once on a host, as the last one."""

SCENARIOS: Final = (
    LEAD,
    DELEGATION,
    BROKEN_TOOL,
    FLAKY_MODEL,
    BROKEN_MODEL,
    COMPACTION,
    CANCELLATION,
    SHUTDOWN,
)
"""All of them; each is quick."""


def _call(name: str, call_id: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": call_id}


def _delegate(prompt: str, call_id: str) -> dict[str, Any]:
    return _call("task", call_id, prompt=prompt, subagent_type="general-purpose")


_RULES: Final[tuple[dict[str, Any], ...]] = (
    {
        "when": "^delegate$",
        "turns": [
            {"tool_calls": [_delegate("part one", "call-1"), _delegate("part two", "call-2")]},
            {"text": "joined: {tool_results}"},
        ],
    },
    {
        "when": "^part one$",
        "turns": [
            {"tool_calls": [_call("working_tool", "call-3", text="{prompt}")]},
            {"text": "{tool_results}"},
        ],
    },
    {
        "when": "^use the broken tool$",
        "turns": [
            {"tool_calls": [_call("broken_tool", "call-4", text="{prompt}")]},
            {"text": "it said: {tool_results}"},
        ],
    },
    {"when": "^break the model$", "turns": [{"error": "this model is broken on purpose"}]},
    {"when": "^stall$", "turns": [{"delay_seconds": STALL_SECONDS, "text": "too late"}]},
    {"when": "", "turns": [{"text": "echo: {prompt}"}]},
)


def scripted_sections(
    rules: Sequence[Mapping[str, Any]], sections: Mapping[str, Any], hook_timeout_seconds: float
) -> dict[str, Any]:
    """Return a configuration on which every scenario can be played; `rules` come first, `sections` count."""
    scripted = {
        "name": "scripted",
        "use": "deerflow.models:ScriptedChatModel",
        "rules": [*map(dict, rules), *_RULES],
    }
    flaky = {**scripted, "name": FLAKY_MODEL_NAME, "use": "deerflow.testing.models:FlakyChatModel"}
    writer = {**scripted, "name": "writer", "rules": [{"when": "", "turns": [{"text": "written"}]}]}
    base = {
        "models": [scripted, flaky, writer],
        "tools": [
            {"use": "deerflow.testing.models:broken_tool"},
            {"use": "deerflow.testing.models:working_tool"},
        ],
        "database": {"backend": "memory"},
        "model_retry": {"max_retries": 2, "initial_delay_seconds": 0.001},
        "title": {"model_name": "writer"},
        "summarization": {
            "model_name": "writer",
            "trigger": [{"type": "messages", "value": MESSAGES_UNTIL_COMPACTION}],
            "keep": {"type": "messages", "value": MESSAGES_KEPT},
        },
        "extensions": {"hook_timeout_seconds": hook_timeout_seconds},
    }
    return {**base, **sections}
