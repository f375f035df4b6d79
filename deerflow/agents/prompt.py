"""The text that the host gives to its agents. What others wrote is escaped before it stands in it."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from deerflow.agents.subagents.catalogue import SubagentType

_LEAD = (
    "You are the lead agent. Answer the user's request; use your tools where they help, and say plainly what "
    "you could not do. Files that the tools name belong to this conversation's workspace."
)
_DELEGATION = (
    "You may hand self-contained pieces of work to subagents with the `task` tool: several calls in one "
    "message run side by side. Tell each one everything it needs, then join their results yourself."
)


def lead_prompt(catalogue: Mapping[str, SubagentType] | None) -> str:
    """The lead's system prompt; with a catalogue it says what may be delegated, and to whom."""
    if not catalogue:
        return _LEAD
    return f"{_LEAD}\n\n{_DELEGATION}\n\n<subagents>\n{catalogue_text(catalogue)}\n</subagents>"


def catalogue_text(catalogue: Mapping[str, SubagentType]) -> str:
    """One line per subagent type; descriptions cannot close a block or start a line of their own."""
    return "\n".join(f"- {one_line(kind.name)}: {one_line(kind.description)}" for kind in catalogue.values())


def one_line(text: str) -> str:
    """The text on one line, its markup escaped."""
    return escape(" ".join(text.split()), quote=False)
