"""Graphs for reading a thread, made without the options of its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from langgraph.checkpoint.memory import InMemorySaver
from support.hosts import scripted_config

from deerflow.agents import make_lead_agent
from deerflow.agents.lead import Assembler
from deerflow.agents.reading import Graph, ReadGraph, attributes_of, showing_questions
from deerflow.config import RequestOptions
from deerflow.extensions import get_loaded_extensions

_WRITE = {"name": "write_file", "args": {"path": "a", "content": "x"}}
_RULES = [{"when": "^write", "turns": [{"tool_calls": [_WRITE]}]}]
_THREAD: Any = {"configurable": {"thread_id": "thread-1"}}


def _graphs(home: Path) -> tuple[Graph, ReadGraph]:
    """The graph of runs that ask, and the one of a reader who does not know that they do."""
    assembler, loaded, saver = (
        Assembler(scripted_config(home, _RULES)),
        get_loaded_extensions(),
        InMemorySaver(),
    )
    asking, plain, reading = (
        assembler.lead_now(loaded, options).graph
        for options in (
            RequestOptions(approve_tools=("write_file",)),
            RequestOptions(),
            showing_questions(RequestOptions()),
        )
    )
    read = ReadGraph(asking=reading, **attributes_of(plain)).copy({"checkpointer": saver})
    return asking.copy({"checkpointer": saver}), read


async def test_questions_that_wait_are_shown_in_the_state_and_its_history(tmp_path: Path) -> None:
    asking, read = _graphs(tmp_path)
    state = await asking.ainvoke({"messages": [("user", "write")]}, _THREAD)
    asked = tuple(state["__interrupt__"])
    assert asked
    assert (await read.aget_state(_THREAD)).interrupts == asked
    history = [state.interrupts async for state in read.aget_state_history(_THREAD, limit=2)]
    assert history == [asked, ()]


async def test_after_an_update_its_own_nodes_come_next(tmp_path: Path) -> None:
    _, read = _graphs(tmp_path)
    message = {"role": "assistant", "content": "", "tool_calls": [{**_WRITE, "id": "w"}]}
    await read.aupdate_state(_THREAD, {"messages": [("user", "write"), message]}, as_node="model")
    assert (await read.aget_state(_THREAD)).next == ("tools",)


@pytest.mark.parametrize(
    ("configurable", "reads"),
    [({}, False), ({"__is_for_execution__": True}, False), ({"__is_for_execution__": False}, True)],
)
async def test_only_who_is_said_to_read_gets_a_graph_for_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configurable: dict[str, Any], reads: bool
) -> None:
    file = tmp_path / "config.yaml"
    config = scripted_config(tmp_path, _RULES).model_dump(mode="json", include={"models", "database"})
    file.write_text(yaml.safe_dump(config))
    monkeypatch.setenv("DEER_FLOW_CONFIG_PATH", str(file))
    assert isinstance(make_lead_agent({"configurable": configurable}), ReadGraph) is reads
