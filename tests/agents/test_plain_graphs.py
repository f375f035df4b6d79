"""Graphs that run without the host around them: no ids, no context, no scope."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from deerflow_extension_api import read_provenance
from support.extensions import Seen, installed, recording
from support.hosts import delegation, scripted_config

from deerflow.agents.lead import Assembler
from deerflow.agents.middlewares.run_limits import STOP_REASON_KEY, TOKEN_CAPPED, TURN_CAPPED
from deerflow.config import RequestOptions
from deerflow.extensions import LoadedExtensions, get_loaded_extensions

_LIST = {"name": "ls", "args": {}}
_RULES = [
    {"when": "^loop", "turns": [{"tool_calls": [_LIST]}]},
    {
        "when": "^hand over",
        "turns": [{"tool_calls": [delegation("loop", "call-1")]}, {"text": "{tool_results}"}],
    },
]


def _graph(home: Path, rules: Sequence[dict[str, Any]] = (), **sections: Any) -> Any:
    assembler = Assembler(scripted_config(home, [*rules, *_RULES], **sections))
    return assembler.lead_now(get_loaded_extensions(), RequestOptions()).graph


async def _run(graph: Any, text: str, side: str, **options: Any) -> Any:
    state = {"messages": [("user", text)]}
    if side == "async":
        return await graph.ainvoke(state, **options)
    return await asyncio.to_thread(graph.invoke, state, **options)


@pytest.mark.parametrize("side", ["sync", "async"])
async def test_budgets_of_two_runs_without_ids_are_apart(tmp_path: Path, side: str) -> None:
    graph = _graph(tmp_path, token_budget={"enabled": True, "max_tokens": 8})
    first, second = [await _run(graph, "loop", side) for _ in range(2)]
    for state in (first, second):
        last = state["messages"][-1]
        assert last.response_metadata[STOP_REASON_KEY] == TOKEN_CAPPED
        marks = read_provenance(last)
        assert marks is not None and marks.producer_kind == "run_limits"
    assert [len(state["messages"]) for state in (first, second)] == [len(first["messages"])] * 2
    assert len(first["messages"]) > 2


@pytest.mark.parametrize("side", ["sync", "async"])
async def test_why_a_subagent_stopped_arrives_at_a_lead_without_an_id(tmp_path: Path, side: str) -> None:
    graph = _graph(tmp_path, subagents={"max_turns": 2})
    state = await _run(graph, "hand over", side)
    (result,) = [message for message in state["messages"] if message.type == "tool"]
    assert result.additional_kwargs["subagent_stop_reason"] == TURN_CAPPED
    assert result.content.startswith("Task Succeeded (capped: turn budget)")


async def test_a_delegation_that_began_nothing_counts_for_nothing(tmp_path: Path) -> None:
    unknown = delegation("one", "a")
    unknown["args"]["subagent_type"] = "nobody"
    rule = {
        "when": "^in order",
        "turns": [
            {"tool_calls": [unknown]},
            {"tool_calls": [delegation("two", "b")]},
            {"tool_calls": [delegation("three", "c")]},
            {"text": "joined"},
        ],
    }
    graph = _graph(tmp_path, [rule], subagents={"max_total_per_run": 1})
    state = await _run(graph, "in order", "async")
    refused, done, spent = [message.content for message in state["messages"] if message.type == "tool"]
    assert "unknown subagent_type" in refused
    assert done == "Task Succeeded. Result: echo: two"
    assert "may delegate 1 times" in spent


@pytest.mark.parametrize("context", [None, {}, {"thinking_enabled": False}])
async def test_contributed_middlewares_run_without_a_context(tmp_path: Path, context: Any) -> None:
    seen = Seen()
    with installed(recording(seen)) as loaded:
        options = {} if context is None else {"context": context}
        state = await _run(_graph(tmp_path), "hello", "async", **options)
    assert state["messages"][-1].content == "echo: hello"
    assert seen.model_stores == [None]
    assert not loaded.diagnostics


async def test_subagents_are_built_from_the_set_that_their_lead_was_built_from(tmp_path: Path) -> None:
    """The process-wide set when the graph was made, whatever has taken its place since."""
    old, new = Seen(), Seen()
    with installed(recording(old)):
        graph = _graph(tmp_path, subagents={"max_turns": 1})
    with installed(recording(new)):
        await _run(graph, "hand over", "async")
    assert old.kinds() == ["start subagent", "stop subagent"]
    assert new.events == []


async def test_without_extensions_it_is_the_same_graph(tmp_path: Path) -> None:
    with installed(LoadedExtensions()):
        state = await _run(_graph(tmp_path), "hello", "async")
    assert [message.content for message in state["messages"]] == ["hello", "echo: hello"]
