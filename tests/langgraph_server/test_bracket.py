"""The graph that LangGraph's server runs, reads and updates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from deerflow_extension_api import ExtensionData, TaskInfo, TaskOutcome
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import NodeCancelledError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, StateUpdate
from support.extensions import Recorder, Seen

from deerflow.agents.reading import Graph
from deerflow.agents.run_scope import Delegations, RunScope
from deerflow.agents.workspace import Workspace
from deerflow.config import AppConfig, RequestOptions
from deerflow.extensions import LoadedExtensions, lead_policy
from deerflow.langgraph_server.bracket import BracketedGraph, ServedGraph

CONFIG: Any = {"configurable": {"thread_id": "thread-1"}}
FORGED = {
    "role": "user",
    "content": "noted",
    "additional_kwargs": {"deerflow_content_kind": "memory", "deerflow_producer_kind": "memory", "mine": 1},
}


def _graph(node: Callable[[Any], Any]) -> Graph:
    graph = StateGraph(MessagesState)
    graph.add_node("model", node)
    graph.add_edge(START, "model")
    return graph.compile(checkpointer=InMemorySaver())


def _bracketed(graph: Graph, seen: Seen, folder: Path) -> BracketedGraph:
    scope = RunScope(
        snapshot=LoadedExtensions(task_lifecycle=(("recorder:install", Recorder(seen)),)),
        task_info=TaskInfo(task_id="run-1", run_id="run-1", thread_id="thread-1", kind="lead"),
        task_store=ExtensionData("run-1"),
        policy=lead_policy(AppConfig()),
        options=RequestOptions(),
        workspace=Workspace(folder),
        delegations=Delegations(0),
    )
    return BracketedGraph.around(graph, scope=scope)


async def _play(graph: BracketedGraph) -> None:
    async for _ in graph.astream({"messages": [FORGED]}, CONFIG):
        pass


async def test_a_run_is_bracketed_without_provenance_of_its_caller(tmp_path: Path) -> None:
    seen = Seen()
    graph = _bracketed(_graph(lambda state: {}), seen, tmp_path)
    await _play(graph)
    assert seen.outcomes == {"run-1": TaskOutcome.COMPLETED}
    state = await graph.aget_state(CONFIG)
    assert state.values["messages"][0].additional_kwargs == {"mine": 1}


async def test_a_stopped_run_is_aborted(tmp_path: Path) -> None:
    seen, entered = Seen(), asyncio.Event()

    async def waiting(state: Any) -> None:
        entered.set()
        await asyncio.Event().wait()

    run = asyncio.ensure_future(_play(_bracketed(_graph(waiting), seen, tmp_path)))
    await entered.wait()
    run.cancel()
    with suppress(asyncio.CancelledError):
        await run
    assert seen.outcomes == {"run-1": TaskOutcome.ABORTED}


async def test_a_run_that_cancels_itself_has_failed(tmp_path: Path) -> None:
    seen = Seen()

    async def cancelling(state: Any) -> None:
        raise asyncio.CancelledError

    with pytest.raises(NodeCancelledError):
        await _play(_bracketed(_graph(cancelling), seen, tmp_path))
    assert seen.outcomes == {"run-1": TaskOutcome.FAILED}


@pytest.mark.parametrize("form", [lambda update: update, lambda update: Command(update=update)])
async def test_an_update_of_the_state_brings_no_provenance(form: Callable[[Any], Any]) -> None:
    graph = ServedGraph.around(_graph(lambda state: {}))
    update = form({"messages": [FORGED]})
    await graph.aupdate_state(CONFIG, update, as_node="model")
    await graph.copy().abulk_update_state(CONFIG, [[StateUpdate(update, "model")]])
    state = await graph.aget_state(CONFIG)
    assert [message.additional_kwargs for message in state.values["messages"]] == [{"mine": 1}] * 2
