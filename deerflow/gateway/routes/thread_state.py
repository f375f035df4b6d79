"""The state of a thread: now, at a checkpoint, over time; and changes to it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from deerflow.gateway.answers import StateChange, StatePart, answers
from deerflow.gateway.bodies.runs import CheckpointBody, checkpoint_id_of
from deerflow.gateway.bodies.threads import HistoryBody, StateAtBody, StateUpdateBody
from deerflow.gateway.current import host_of, thread_of
from deerflow.gateway.json_requests import GatewayRoute
from deerflow.gateway.pages import Limit
from deerflow.gateway.parameters import CheckpointId, ThreadId
from deerflow.gateway.responses import JsonResponse
from deerflow.gateway.selection import selected_state
from deerflow.gateway.shapes import checkpoint_json, state_json
from deerflow.gateway.threads.frames import tell_state_update
from deerflow.runs.request import checked_id

router = APIRouter(route_class=GatewayRoute, tags=["threads"], prefix="/threads/{thread_id}")

Select = Annotated[list[str] | None, Query()]


@router.get("/state", responses=answers(StatePart, 404))
async def get(
    request: Request, thread_id: ThreadId, subgraphs: bool = False, select: Select = None
) -> Response:
    """The newest state; before the first run an empty one."""
    return await _state(request, thread_id, None, subgraphs, select)


@router.get("/state/{checkpoint_id}", responses=answers(StatePart, 404))
async def get_at(
    request: Request,
    thread_id: ThreadId,
    checkpoint_id: CheckpointId,
    subgraphs: bool = False,
    select: Select = None,
) -> Response:
    """The state at a checkpoint."""
    return await _state(request, thread_id, checked_id(checkpoint_id, "checkpoint_id"), subgraphs, select)


@router.post("/state/checkpoint", responses=answers(StatePart, 404))
async def post_at(request: Request, thread_id: ThreadId, body: StateAtBody) -> Response:
    """The state at a checkpoint, which is given as a whole."""
    checkpoint_id = checkpoint_id_of(body.checkpoint, checked_id(thread_id, "thread_id"))
    return await _state(request, thread_id, checkpoint_id, bool(body.subgraphs), body.select)


@router.post("/state", responses=answers(StateChange, 404, 409))
async def update(request: Request, thread_id: ThreadId, body: StateUpdateBody) -> Response:
    """Change the state as if a node had; 409 while a run is under way."""
    thread = await thread_of(request, thread_id)
    checkpoint_id = checkpoint_id_of(body.checkpoint, thread.thread_id)
    if body.checkpoint_id is not None:
        checkpoint_id = checked_id(body.checkpoint_id, "checkpoint_id")
    config = await host_of(request).states.update(
        thread, body.values, as_node=body.as_node, checkpoint_id=checkpoint_id
    )
    await tell_state_update(request, thread.thread_id)
    checkpoint = checkpoint_json(config)
    return JsonResponse(
        {
            "checkpoint": checkpoint,
            "configurable": checkpoint,
            "checkpoint_id": checkpoint and checkpoint["checkpoint_id"],
        }
    )


@router.get("/history", responses=answers(list[StatePart], 404))
async def history(
    request: Request,
    thread_id: ThreadId,
    limit: Limit = 10,
    before: str | None = None,
) -> Response:
    """States, newest first."""
    return await post_history(request, thread_id, HistoryBody(limit=limit, before=before))


@router.post("/history", responses=answers(list[StatePart], 404))
async def post_history(request: Request, thread_id: ThreadId, body: HistoryBody) -> Response:
    """States, newest first: those `before` a checkpoint, or the one at `checkpoint`."""
    thread = await thread_of(request, thread_id)
    before = body.before
    if isinstance(before, CheckpointBody):
        before = checkpoint_id_of(before, thread.thread_id)
    elif before is not None:
        before = checked_id(before, "before")
    states = await host_of(request).states.history(
        thread,
        limit=body.limit,
        before=before,
        checkpoint_id=checkpoint_id_of(body.checkpoint, thread.thread_id),
        metadata=body.metadata,
    )
    return JsonResponse([selected_state(state_json(state), body.select) for state in states])


async def _state(
    request: Request, thread_id: str, checkpoint_id: str | None, subgraphs: bool, select: list[str] | None
) -> Response:
    thread = await thread_of(request, thread_id)
    state = await host_of(request).states.read(thread, checkpoint_id=checkpoint_id, subgraphs=subgraphs)
    return JsonResponse(selected_state(state_json(state), select))
