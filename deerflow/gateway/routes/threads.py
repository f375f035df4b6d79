"""Threads."""

from __future__ import annotations

from uuid import uuid4

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from deerflow.gateway.current import host_of, owner_of, thread_of
from deerflow.gateway.json_requests import GatewayRoute
from deerflow.gateway.responses import JsonResponse
from deerflow.gateway.shapes import thread_json
from deerflow.gateway.thread_bodies import ThreadBody
from deerflow.runs.record import ThreadRecord
from deerflow.runs.request import checked_id

router = APIRouter(route_class=GatewayRoute, tags=["threads"])


@router.post("/threads")
async def create(request: Request, body: ThreadBody) -> Response:
    """A new thread; with `if_exists: do_nothing` the one that is there."""
    thread_id = str(uuid4()) if body.thread_id is None else checked_id(body.thread_id, "thread_id")
    thread = ThreadRecord(thread_id, user_id=owner_of(request), metadata=body.metadata or {})
    threads = host_of(request).database.stores.threads
    if body.if_exists == "do_nothing":
        thread = await threads.get_or_create(thread)
        return JsonResponse(thread_json(thread, await host_of(request).states.read(thread)))
    thread = await threads.create(thread)
    return JsonResponse(thread_json(thread))


@router.get("/threads/{thread_id}")
async def get(request: Request, thread_id: str) -> Response:
    """One thread with its newest state."""
    thread = await thread_of(request, thread_id)
    return JsonResponse(thread_json(thread, await host_of(request).states.read(thread)))
