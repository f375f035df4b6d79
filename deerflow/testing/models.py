"""Chat models and tools that fail on purpose."""

from __future__ import annotations

from langchain_core.messages import BaseMessage
from langchain_core.tools import tool
from pydantic import PrivateAttr

from deerflow.models import ScriptedChatModel
from deerflow.models.conversation import Conversation
from deerflow.models.script import ScriptedTurn


class OverloadedError(Exception):
    """What a provider answers that has no room for a moment."""

    status_code = 503


class FlakyChatModel(ScriptedChatModel):
    """Refuses the first of every two calls for the same conversation, as an overloaded provider does."""

    _refused: set[str] = PrivateAttr(default_factory=set)

    def _turn(
        self, messages: list[BaseMessage], kwargs: dict[str, object]
    ) -> tuple[ScriptedTurn, Conversation]:
        turn, conversation = super()._turn(messages, kwargs)
        said = conversation.fingerprint()
        if said not in self._refused:
            self._refused.add(said)
            raise OverloadedError("overloaded on purpose; ask again")
        self._refused.discard(said)
        return turn, conversation


@tool
def broken_tool(text: str) -> str:
    """Always fail."""
    raise RuntimeError("this tool is broken on purpose")


@tool
def working_tool(text: str) -> str:
    """Return the text in upper case."""
    return text.upper()
