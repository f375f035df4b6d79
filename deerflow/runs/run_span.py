"""The span of a run: how it waited for its thread, was carried out, and finished."""

from __future__ import annotations

import asyncio

from deerflow.agents.agent_spans import agent_start, note_usage
from deerflow.runs.active import ActiveRun
from deerflow.runs.ending import was_stopped
from deerflow.runs.execute import supervise
from deerflow.runs.parts import RunParts
from deerflow.runs.request import GRAPH_ID
from deerflow.tracing import Span, Tracing, names


async def supervise_traced(run: ActiveRun, turn: asyncio.Event, parts: RunParts, tracing: Tracing) -> None:
    """`supervise` within a span, below the one that was current where the run was asked for."""
    ids = {names.CONVERSATION_ID: run.thread_id, names.RUN_ID: run.run_id, names.TASK_ID: run.run_id}
    with tracing.span(agent_start(run.options.agent_name or GRAPH_ID, ids)) as span:
        await supervise(run, turn, parts)
        _note_end(span, run)


def _note_end(span: Span, run: ActiveRun) -> None:
    ending, scope = run.ending, run.scope
    began_at = run.log.first_moments.get("metadata")
    if began_at is not None:
        span.set({names.WAIT_SECONDS: max(0.0, began_at - run.log.opened_at - run.request.after_seconds)})
    if scope is not None:
        note_usage(span, scope)
    if ending is None:
        return
    span.set({names.RUN_STATUS: str(ending.status), names.STOP_REASON: ending.stop_reason})
    if ending.error is not None:
        kind, text = ending.error
        span.fail(kind, f"{kind}: {text}")
    elif was_stopped(ending.status, ending.stop_reason):
        span.fail("cancelled", ending.stop_reason or "")
