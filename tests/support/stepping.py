"""A scripted model whose turns are counted by its calls, and a tool whose effect is."""

from __future__ import annotations

from collections import Counter
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.tools import tool

from deerflow.models import ScriptedChatModel
from deerflow.models.conversation import Conversation
from deerflow.models.script import ScriptedTurn, fill, find_turn
from support.hosts import delegation, scripted_config

CALLS: Counter[str] = Counter()
"""How often the model was called, by prompt."""

EFFECTS: Counter[str] = Counter()
"""How often the tool was run, by its argument."""

SUMMARIZE_FROM_MESSAGES = 5


class SteppingChatModel(ScriptedChatModel):
    """Takes the next turn of a rule at each call for a prompt, so that no call can be made twice unseen."""

    def _turn(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> tuple[ScriptedTurn, Conversation]:
        conversation = Conversation.read(messages)
        prompt = conversation.prompt
        turn = find_turn(self.rules, prompt, CALLS[prompt])
        CALLS[prompt] += 1
        assert turn is not None, prompt
        filled = fill(turn.model_dump(exclude_unset=True), prompt, conversation.tool_results)
        return ScriptedTurn.model_validate(filled), conversation


@tool
async def tally(word: str) -> str:
    """Count that this was called."""
    EFFECTS[word] += 1
    return f"tallied {word}"


@tool
async def tell(size: int) -> str:
    """Say so many characters."""
    return "x" * size


_TALLY = {"name": "tally", "args": {"word": "{prompt}"}}

RULES = [
    {"when": "^child of", "turns": [{"tool_calls": [_TALLY]}] * 2 + [{"text": "child: {tool_results}"}]},
    {
        "when": "",
        "turns": [
            {"tool_calls": [_TALLY]},
            {"tool_calls": [delegation("child of {prompt}", "call-1")]},
            {"text": "lead: {tool_results}"},
        ],
    },
]


def stepping_config(home: Any, **sections: Any) -> Any:
    """Lead and subagent each call the tool, and each compact; another model writes titles and summaries."""
    lead = {"name": "stepping", "use": "support.stepping:SteppingChatModel", "rules": RULES}
    writer = {
        "name": "writer",
        "use": "deerflow.models:ScriptedChatModel",
        "rules": [{"when": "", "turns": [{"text": "written"}]}],
    }
    return scripted_config(
        home,
        models=[lead, writer],
        tools=[{"use": "support.stepping:tally"}],
        title={"model_name": "writer"},
        summarization={
            "model_name": "writer",
            "trigger": [{"type": "messages", "value": SUMMARIZE_FROM_MESSAGES}],
            "keep": {"type": "messages", "value": 2},
        },
        **sections,
    )


def effects_of(text: str) -> tuple[int, int, int, int]:
    """Calls of the lead's model and of the child's, effects of the lead's tool and of the child's."""
    child = f"child of {text}"
    return CALLS[text], CALLS[child], EFFECTS[text], EFFECTS[child]
