"""The part of states, updates and commands that clients may see."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.types import Command, Send

from deerflow.runs.events.visible_state import VisibleState, tool_calls_in

CALL = {"name": "search", "args": {"query": "x"}, "id": "1", "type": "tool_call"}
STATE = {"messages": ["m"], "notes": ["n"], "secret": "s"}
SHOWN = {"messages": ["m"], "notes": ["n"]}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (STATE, SHOWN),
        ([CALL], [CALL]),
        ({"__type": "tool_call_with_context", "tool_call": CALL, "state": STATE}, [CALL]),
        ({"tool_call": "secret"}, {}),
        ([STATE], None),
        (Command(resume="yes", update=STATE), None),
        ("secret", None),
    ],
)
def test_what_a_node_is_given_is_shown_as_state_or_calls(given: Any, shown: Any) -> None:
    assert VisibleState(["messages", "notes"]).given(given) == shown


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (STATE, SHOWN),
        (None, None),
        ("secret", None),
        ([STATE, None], [SHOWN, None]),
        ([("notes", ["n"]), ("secret", "s")], [("notes", ["n"]), None]),
        (Command(update=STATE), Command(update=SHOWN)),
        ([Command(update=[("secret", "s")])], [Command(update=[None])]),
        (Command(goto=Send("tools", STATE)), Command(goto="tools")),
        (Command(goto=["model", Send("tools", STATE)]), Command(goto=["model", "tools"])),
    ],
)
def test_what_a_node_gives_is_shown_without_what_others_keep(written: Any, shown: Any) -> None:
    assert VisibleState(["messages", "notes"]).written(written) == shown


def test_the_original_stays_as_it_is() -> None:
    command = Command(update=dict(STATE))
    VisibleState(["messages"]).written(command)
    assert command.update == STATE


def test_only_tool_calls_count_as_calls() -> None:
    assert tool_calls_in([CALL, "x", {"type": "text"}]) == [CALL]
    assert tool_calls_in(STATE) == []
