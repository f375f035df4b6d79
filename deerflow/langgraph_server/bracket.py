"""A lead graph as LangGraph's server gets it, which brackets its executions as the host does around a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Self, cast

from deerflow_extension_api import TaskOutcome
from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, StateUpdate

from deerflow.agents.agent_spans import agent_start, ids_of, note_usage
from deerflow.agents.reading import Graph, attributes_of
from deerflow.agents.run_scope import RunScope, runtime_context
from deerflow.cancellation import uninterrupted
from deerflow.errors import ConflictError
from deerflow.extensions.lifecycle import TaskHooks
from deerflow.runs.request import GRAPH_ID, cleaned
from deerflow.tracing import Tracing


class ServedGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """The graph for whoever reads or updates the state of a thread."""

    @classmethod
    def around(cls, graph: Graph, **further: Any) -> Self:
        """`graph` with what this class adds."""
        return cls(**attributes_of(graph), **further)

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Update the state with what a caller sends; every update of the server's takes this way."""
        own = [[update._replace(values=_cleaned(update.values)) for update in step] for step in supersteps]
        return await super().abulk_update_state(config, own)


class BracketedGraph(ServedGraph):
    """The graph of one run. The scope belongs to this object, which the server made for that run alone, so no
    key that a caller writes can replace it; the server copies the object by its attributes."""

    def __init__(self, *, scope: RunScope, tracing: Tracing | None = None, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.scope = scope
        self.tracing = tracing

    async def astream(
        self, input: Any, config: Any = None, *, context: Any = None, **arguments: Any
    ) -> AsyncIterator[Any]:
        """Stream the run between `on_task_start` and `on_task_stop`."""
        scope = self._scope_for(input)
        parts = self._bracketed(scope, input, config, context, arguments)
        if self.tracing is not None:
            start = agent_start(scope.task_info.agent_name or GRAPH_ID, ids_of(scope))
            parts = self.tracing.streamed(start, parts, lambda span: note_usage(span, scope))
        async with aclosing(parts) as stream:
            async for part in stream:
                yield part

    async def _bracketed(
        self, scope: RunScope, input: Any, config: Any, context: Any, arguments: Mapping[str, Any]
    ) -> AsyncGenerator[Any]:
        caller = context if isinstance(context, Mapping) else {}
        outcome = TaskOutcome.FAILED
        hooks = TaskHooks(scope.snapshot, scope.task_store, scope.task_info)
        try:
            await self._check_somebody_waits(input, config)
            await hooks.start()
            parts = super().astream(
                _cleaned(input), config, context=runtime_context(caller, scope), **arguments
            )
            async with aclosing(cast(AsyncGenerator[Any], parts)) as stream:
                async for part in stream:
                    yield part
            outcome = TaskOutcome.COMPLETED
        except (asyncio.CancelledError, GeneratorExit):
            outcome = TaskOutcome.ABORTED
            raise
        finally:
            await uninterrupted(hooks.stop(outcome), name=f"on_task_stop of run {scope.task_info.run_id}")

    async def _check_somebody_waits(self, graph_input: Any, config: Any) -> None:
        """Raise `ConflictError` for an answer that this graph has no place for: it would be lost silently."""
        if not isinstance(graph_input, Command) or graph_input.resume is None:
            return
        state = await self.aget_state(config)
        if not state.next:
            raise ConflictError(
                "nothing on this thread waits for an answer under these options; "
                "give the context of the run that asked, approve_tools say"
            )

    def _scope_for(self, graph_input: Any) -> RunScope:
        answers = isinstance(graph_input, Command) and graph_input.resume is not None
        if graph_input is not None and not answers:
            return self.scope
        return replace(self.scope, task_info=replace(self.scope.task_info, resumed=True))


def _cleaned(graph_input: Any) -> Any:
    """What a caller sends, without provenance that a caller has no right to."""
    if isinstance(graph_input, Command):
        return replace(graph_input, update=cleaned(graph_input.update), resume=cleaned(graph_input.resume))
    return cleaned(graph_input)
