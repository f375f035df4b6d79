"""Threads."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Literal
from uuid import uuid4

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from deerflow.errors import ConflictError, DeerFlowError, InvalidRequestError, NotFoundError
from deerflow.gateway.answers import MERGED, Pruned, Thread, ThreadPart, answers, failures
from deerflow.gateway.bodies.threads import (
    PruneBody,
    ThreadBody,
    ThreadFilterBody,
    ThreadPatchBody,
    ThreadSearchBody,
)
from deerflow.gateway.current import host_of, owner_of, thread_of, visible_to
from deerflow.gateway.json_requests import GatewayRoute
from deerflow.gateway.pages import PAGE_HEADERS, page_headers
from deerflow.gateway.parameters import ThreadId
from deerflow.gateway.responses import JsonResponse
from deerflow.gateway.selection import extracted, selected
from deerflow.gateway.shapes import thread_json, ttl_json
from deerflow.gateway.threads.search import count_threads, find_threads
from deerflow.host import Host
from deerflow.persistence import prune_checkpoints
from deerflow.runs.record import ThreadRecord
from deerflow.runs.request import checked_id
from deerflow.runs.serialize import to_json_value
from deerflow.runs.stores import ThreadQuery
from deerflow.runs.thread_ttl import ThreadTtl

router = APIRouter(route_class=GatewayRoute, tags=["threads"], prefix="/threads")

_STATE_FIELDS = {"values", "interrupts"}
_INCLUDE = Query(description="What else to say of the thread, one by one or with commas; there is `ttl`.")


@router.post("", responses=answers(Thread, 404, 409))
async def create(request: Request, body: ThreadBody) -> Response:
    """A new thread; with `if_exists: do_nothing` the one that is there."""
    host = host_of(request)
    thread_id = str(uuid4()) if body.thread_id is None else checked_id(body.thread_id, "thread_id")
    thread = ThreadRecord(thread_id, user_id=owner_of(request), metadata=body.metadata or {})
    if body.if_exists == "do_nothing":
        thread = await _get_or_create(request, thread, body.thread_ttl())
        return JsonResponse(thread_json(thread, await host.states.read(thread)))
    thread = await host.database.stores.threads.create(thread, ttl=body.thread_ttl())
    if not body.supersteps:
        return JsonResponse(thread_json(thread))
    try:
        await host.states.fill(thread, [step.state_updates() for step in body.supersteps])
    except DeerFlowError:
        await host.runs.remove(thread_id)
        raise
    return await get(request, thread_id, include=None)


@router.post("/search", responses=answers(list[ThreadPart], headers=PAGE_HEADERS))
async def search(request: Request, body: ThreadSearchBody) -> Response:
    """Threads with their newest states, the newest first unless asked otherwise."""
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
    found = await find_threads(host_of(request), query, body.values, with_states=_needs_states(body))
    headers = page_headers(found.total, body.offset, len(found.page))
    items = [thread_json(item.thread, item.state) for item in found.page]
    chosen = selected(items, body.select)
    if body.extract:
        pairs = zip(chosen, items, strict=True)
        chosen = [
            {**part, "extracted": extracted(to_json_value(whole), body.extract)} for part, whole in pairs
        ]
    return JsonResponse(chosen, headers=headers)


@router.post("/count", responses=answers(int))
async def count(request: Request, body: ThreadFilterBody) -> Response:
    """How many threads there are."""
    query = ThreadQuery(user_id=visible_to(request), metadata=body.metadata, status=body.status)
    return JsonResponse(await count_threads(host_of(request), query, body.values))


@router.post("/prune", responses=answers(Pruned))
async def prune(request: Request, body: PruneBody) -> Response:
    """Remove several threads, or their older states; those that are not there, or busy, are passed over."""
    pruned = 0
    for thread_id in body.thread_ids:
        with suppress(NotFoundError, ConflictError):
            thread = await thread_of(request, thread_id)
            pruned += await _pruned(host_of(request), thread, body.strategy)
    return JsonResponse({"pruned_count": pruned})


@router.get("/{thread_id}", responses=answers(Thread, 404))
async def get(
    request: Request, thread_id: ThreadId, include: Annotated[list[str] | None, _INCLUDE] = None
) -> Response:
    """One thread with its newest state."""
    with_ttl = _wants_ttl(include)
    thread, host = await thread_of(request, thread_id), host_of(request)
    found = thread_json(thread, await host.states.read(thread))
    if with_ttl and (expiry := await host.database.stores.ttls.get(thread.thread_id)) is not None:
        found["ttl"] = ttl_json(expiry)
    return JsonResponse(found)


@router.patch("/{thread_id}", responses=answers(Thread, 404) | MERGED)
async def patch(request: Request, thread_id: ThreadId, body: ThreadPatchBody) -> Response:
    """Merge metadata, and say how long it is to last; with `Prefer: return=minimal` nothing comes back."""
    host = host_of(request)
    thread = await thread_of(request, thread_id)
    thread = await host.database.stores.threads.merge_metadata(
        thread.thread_id, body.metadata or {}, ttl=body.thread_ttl()
    )
    if request.headers.get("prefer") == "return=minimal":
        return Response(status_code=204)
    return JsonResponse(thread_json(thread, await host.states.read(thread)))


@router.delete("/{thread_id}", status_code=204, responses=failures(404))
async def delete(request: Request, thread_id: ThreadId) -> Response:
    """Stop a thread's runs and remove it with its history and files."""
    thread = await thread_of(request, thread_id)
    if not await host_of(request).runs.remove(thread.thread_id):
        raise NotFoundError(f"there is no thread {thread.thread_id}")
    return Response(status_code=204)


@router.post("/{thread_id}/copy", responses=answers(Thread, 404))
async def copy(request: Request, thread_id: ThreadId) -> Response:
    """A new thread of the caller's with the same metadata, state and history."""
    thread = await thread_of(request, thread_id)
    states = host_of(request).states
    twin = await states.copy(replace(thread, user_id=owner_of(request)))
    return JsonResponse(thread_json(twin, await states.read(twin)))


def _needs_states(body: ThreadSearchBody) -> bool:
    paths = (body.extract or {}).values()
    return not body.select or bool(
        _STATE_FIELDS & set(body.select) or any(path.startswith(tuple(_STATE_FIELDS)) for path in paths)
    )


async def _pruned(host: Host, thread: ThreadRecord, strategy: Literal["delete", "keep_latest"]) -> bool:
    if strategy == "delete":
        return await host.runs.remove(thread.thread_id)
    async with host.runs.exclusive(thread.thread_id):
        await prune_checkpoints(host.checkpointer, thread.thread_id)
    return True


def _wants_ttl(include: list[str] | None) -> bool:
    names = {name.strip() for name in ",".join(include or ()).split(",")} - {""}
    if unknown := names - {"ttl"}:
        raise InvalidRequestError(f"include: {min(unknown)!r} is not known; allowed: 'ttl'")
    return bool(names)


async def _get_or_create(request: Request, thread: ThreadRecord, ttl: ThreadTtl | None) -> ThreadRecord:
    try:
        return await host_of(request).database.stores.threads.get_or_create(thread, ttl=ttl)
    except NotFoundError:  # it is somebody else's, which only administrators may see
        return await thread_of(request, thread.thread_id)
