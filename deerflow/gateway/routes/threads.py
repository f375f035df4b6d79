"""Threads."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from deerflow.errors import DeerFlowError, NotFoundError
from deerflow.gateway.current import host_of, owner_of, thread_of, visible_to
from deerflow.gateway.json_requests import GatewayRoute
from deerflow.gateway.pages import page_headers
from deerflow.gateway.responses import JsonResponse
from deerflow.gateway.selection import selected
from deerflow.gateway.shapes import thread_json
from deerflow.gateway.thread_bodies import (
    PruneBody,
    ThreadBody,
    ThreadFilterBody,
    ThreadPatchBody,
    ThreadSearchBody,
)
from deerflow.runs.record import ThreadRecord
from deerflow.runs.request import checked_id
from deerflow.runs.stores import ThreadQuery

router = APIRouter(route_class=GatewayRoute, tags=["threads"], prefix="/threads")

_STATE_FIELDS = {"values", "interrupts"}


@router.post("")
async def create(request: Request, body: ThreadBody) -> Response:
    """A new thread; with `if_exists: do_nothing` the one that is there."""
    host = host_of(request)
    thread_id = str(uuid4()) if body.thread_id is None else checked_id(body.thread_id, "thread_id")
    thread = ThreadRecord(thread_id, user_id=owner_of(request), metadata=body.metadata or {})
    if body.if_exists == "do_nothing":
        thread = await _get_or_create(request, thread)
        return JsonResponse(thread_json(thread, await host.states.read(thread)))
    thread = await host.database.stores.threads.create(thread)
    if not body.supersteps:
        return JsonResponse(thread_json(thread))
    try:
        await host.states.fill(thread, [step.state_updates() for step in body.supersteps])
    except DeerFlowError:
        await host.runs.remove(thread_id)
        raise
    return await get(request, thread_id)


@router.post("/search")
async def search(request: Request, body: ThreadSearchBody) -> Response:
    """Threads with their newest states, the newest first unless asked otherwise."""
    host = host_of(request)
    query = ThreadQuery(
        user_id=visible_to(request),
        metadata=body.metadata,
        status=body.status,
        ids=None if body.ids is None else [checked_id(thread_id, "ids") for thread_id in body.ids],
        limit=body.limit,
        offset=body.offset,
        sort_by=body.sort_by or "created_at",
        sort_order=body.sort_order or "desc",
    )
    threads = await host.database.stores.threads.search(query)
    headers = page_headers(await host.database.stores.threads.count(query), body.offset, len(threads))
    if body.select and not _STATE_FIELDS & set(body.select):
        found = [thread_json(thread) for thread in threads]
    else:
        found = list(map(thread_json, threads, await host.states.read_many(threads)))
    return JsonResponse(selected(found, body.select), headers=headers)


@router.post("/count")
async def count(request: Request, body: ThreadFilterBody) -> Response:
    """How many threads there are."""
    query = ThreadQuery(user_id=visible_to(request), metadata=body.metadata, status=body.status)
    return JsonResponse(await host_of(request).database.stores.threads.count(query))


@router.post("/prune")
async def prune(request: Request, body: PruneBody) -> Response:
    """Remove several threads; those that are not there are passed over."""
    pruned = 0
    for thread_id in body.thread_ids:
        try:
            thread = await thread_of(request, thread_id)
        except NotFoundError:
            continue
        pruned += await host_of(request).runs.remove(thread.thread_id)
    return JsonResponse({"pruned_count": pruned})


@router.get("/{thread_id}")
async def get(request: Request, thread_id: str) -> Response:
    """One thread with its newest state."""
    thread = await thread_of(request, thread_id)
    return JsonResponse(thread_json(thread, await host_of(request).states.read(thread)))


@router.patch("/{thread_id}")
async def patch(request: Request, thread_id: str, body: ThreadPatchBody) -> Response:
    """Merge metadata; with `Prefer: return=minimal` nothing comes back."""
    host = host_of(request)
    thread = await thread_of(request, thread_id)
    thread = await host.database.stores.threads.merge_metadata(thread.thread_id, body.metadata or {})
    if request.headers.get("prefer") == "return=minimal":
        return Response(status_code=204)
    return JsonResponse(thread_json(thread, await host.states.read(thread)))


@router.delete("/{thread_id}")
async def delete(request: Request, thread_id: str) -> Response:
    """Stop a thread's runs and remove it with its history and files."""
    thread = await thread_of(request, thread_id)
    if not await host_of(request).runs.remove(thread.thread_id):
        raise NotFoundError(f"there is no thread {thread.thread_id}")
    return Response(status_code=204)


@router.post("/{thread_id}/copy")
async def copy(request: Request, thread_id: str) -> Response:
    """A new thread of the caller's with the same metadata, state and history."""
    thread = await thread_of(request, thread_id)
    states = host_of(request).states
    twin = await states.copy(replace(thread, user_id=owner_of(request)))
    return JsonResponse(thread_json(twin, await states.read(twin)))


async def _get_or_create(request: Request, thread: ThreadRecord) -> ThreadRecord:
    try:
        return await host_of(request).database.stores.threads.get_or_create(thread)
    except NotFoundError:  # it is somebody else's, which only administrators may see
        return await thread_of(request, thread.thread_id)
