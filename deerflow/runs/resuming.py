"""Runs that answer what an earlier run of their thread asked a person."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph

from deerflow.errors import ConflictError
from deerflow.runs.record import ACTIVE_STATUSES
from deerflow.runs.request import RunRequest
from deerflow.runs.stores import RunStore

_RUNS_READ = 20


async def with_options_of_asker(
    request: RunRequest, runs: RunStore, *, of_any_owner: bool = False
) -> RunRequest:
    """The request with the options of the run that asked, where it names no others.

    The graph that waits is that of those options; in another one nobody takes the answer. Of a run that is
    neither the user's nor, with `of_any_owner`, to be seen by them, nothing is taken.
    """
    if not request.resumed:
        return request
    newest = await runs.list_by_thread(request.thread_id, limit=_RUNS_READ)
    earlier = next((run for run in newest if run.status not in ACTIVE_STATUSES), None)
    if earlier is not None and not of_any_owner and earlier.user_id != request.user_id:
        return request
    asked_under = earlier.kwargs.get("context") if earlier is not None else None
    return replace(request, context={**(asked_under or {}), **request.context})


async def check_somebody_waits(
    request: RunRequest, graph: CompiledStateGraph[Any, Any, Any, Any], config: RunnableConfig
) -> None:
    """Raise `ConflictError` for an answer to nothing: it would be dropped without a word."""
    if request.command is None or request.command.get("resume") is None:
        return
    state = await graph.aget_state(config)
    if not state.next:
        raise ConflictError(
            f"nothing on thread {request.thread_id} waits for an answer; send a message instead"
        )
