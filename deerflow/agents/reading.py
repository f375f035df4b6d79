"""Reading threads from graphs that a LangGraph server asks for without the options of their runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot

from deerflow.agents.file_tools.build import FILE_TOOLS
from deerflow.config.request import RequestOptions

Graph = CompiledStateGraph[Any, Any, Any, Any]

_ANY_TOOL = (FILE_TOOLS[0].name,)


def showing_questions(options: RequestOptions) -> RequestOptions:
    """The same with the node that asks a person: without it no state would show that a run waits there.

    A server does not say which options the run had; any named tool brings the node.
    """
    return options if options.approve_tools else replace(options, approve_tools=_ANY_TOOL)


def attributes_of(graph: Graph) -> dict[str, Any]:
    """What `graph` consists of, to make one of a class of one's own from it."""
    return {key: value for key, value in vars(graph).items() if key != "__orig_class__"}


class ReadGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A graph whose state is read through another, `asking`. Updates are its own: a run goes on after them
    without the further nodes of the other."""

    def __init__(self, *, asking: Graph, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.asking = asking

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """The state of a thread, with the questions that wait there."""
        return await self._reader().aget_state(config, subgraphs=subgraphs)

    async def aget_state_history(self, config: RunnableConfig, **which: Any) -> AsyncIterator[StateSnapshot]:
        """The states of a thread, newest first, each with the questions that waited there."""
        async for state in self._reader().aget_state_history(config, **which):
            yield state

    def _reader(self) -> Graph:
        return self.asking.copy({"checkpointer": self.checkpointer, "store": self.store})
