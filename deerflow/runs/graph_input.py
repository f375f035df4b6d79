"""What a run's graph starts from, and the configuration it starts with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.constants import START

from deerflow.agents.assembly import Assembly
from deerflow.config.request import clamp_recursion_limit
from deerflow.config.schema import AppConfig
from deerflow.runs.active import ActiveRun
from deerflow.runs.request import GRAPH_ID


@dataclass(frozen=True)
class GraphInput:
    """What a graph starts from; `None` is where it stopped."""

    value: Any
    config: RunnableConfig


def first_input(run: ActiveRun, config: AppConfig) -> GraphInput:
    """What the caller asked for, from the checkpoint that was named."""
    value = with_message_ids(run.request.graph_input())
    run.recorder.note_input(value)
    graph_config = graph_config_of(run, config)
    if run.request.checkpoint_id is not None:
        graph_config["configurable"]["checkpoint_id"] = run.request.checkpoint_id
    return GraphInput(value, graph_config)


async def prompted(run: ActiveRun, assembly: Assembly, prompt: HumanMessage, config: AppConfig) -> GraphInput:
    """A further message, put into the state as an input would be."""
    graph_config = graph_config_of(run, config)
    # A second input under the same run id is ignored: LangGraph takes it for a repetition of the first.
    await assembly.graph.aupdate_state(graph_config, {"messages": [prompt]}, as_node=START)
    return GraphInput(None, graph_config)


def graph_config_of(run: ActiveRun, config: AppConfig) -> RunnableConfig:
    """The configuration of every graph of a run; its checkpoints say which run wrote them."""
    configurable = {"thread_id": run.thread_id, "run_id": run.run_id}
    return {
        "configurable": configurable,
        "recursion_limit": clamp_recursion_limit(run.request.config.get("recursion_limit"), config),
        "metadata": {
            "graph_id": GRAPH_ID,
            "run_id": run.run_id,
            "thread_id": run.thread_id,
            "assistant_id": run.request.assistant_id,
        },
        "run_name": GRAPH_ID,
    }


def with_message_ids(value: Any) -> Any:
    """The input with an id on each message, so that what is kept of it beside the state can be told apart."""
    messages = value.get("messages") if isinstance(value, Mapping) else None
    if not isinstance(messages, list):
        return value
    return {**value, "messages": [_with_id(message) for message in messages]}


def _with_id(message: Any) -> Any:
    if isinstance(message, BaseMessage):
        return message if message.id else message.model_copy(update={"id": str(uuid4())})
    if isinstance(message, Mapping):
        return message if message.get("id") else {**message, "id": str(uuid4())}
    return message
