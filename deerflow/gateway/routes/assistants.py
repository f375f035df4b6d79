"""Assistants: those of the caller, and the system's, which can be read and not changed."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

from fastapi import APIRouter
from langgraph.graph.state import CompiledStateGraph
from starlette.requests import Request
from starlette.responses import Response

from deerflow.config.request import parse_request_options
from deerflow.errors import ConflictError, InvalidRequestError, NotFoundError
from deerflow.extensions import get_loaded_extensions
from deerflow.gateway.answers import Assistant, AssistantPart, GraphDrawing, GraphSchemas, answers, failures
from deerflow.gateway.assistants import (
    assistant_json,
    assistant_of,
    assistants_of,
    changeable_assistant,
    check_graph,
    options_of,
)
from deerflow.gateway.bodies.assistants import (
    AssistantBody,
    AssistantFilterBody,
    AssistantPatchBody,
    AssistantSearchBody,
    LatestBody,
    VersionsBody,
)
from deerflow.gateway.bodies.options import options_in, without_configurable
from deerflow.gateway.current import host_of, owner_of, visible_to
from deerflow.gateway.graph_schemas import graph_drawing, graph_schemas
from deerflow.gateway.json_requests import GatewayRoute
from deerflow.gateway.pages import PAGE_HEADERS, page_headers
from deerflow.gateway.parameters import AssistantId
from deerflow.gateway.responses import JsonResponse
from deerflow.gateway.selection import selected
from deerflow.gateway.threads.of_assistants import remove_threads_of
from deerflow.persistence.assistants import AssistantQuery, AssistantRecord
from deerflow.runs.record import utc_now
from deerflow.runs.request import checked_id

router = APIRouter(route_class=GatewayRoute, tags=["assistants"], prefix="/assistants")

MAX_XRAY = 10


@router.post("", responses=answers(Assistant, 400, 404, 409))
async def create(request: Request, body: AssistantBody) -> Response:
    """A new assistant; with `if_exists: do_nothing` the one that is there."""
    assistant_id, now = str(uuid4()), utc_now()
    if body.assistant_id is not None:
        assistant_id = checked_id(body.assistant_id, "assistant_id")
    assistant = AssistantRecord(assistant_id, now, now, owner_of(request), **_given(request, body))
    try:
        return JsonResponse(assistant_json(await assistants_of(request).create(assistant)))
    except ConflictError:
        if body.if_exists != "do_nothing":
            raise
    return JsonResponse(assistant_json(await assistant_of(request, assistant_id)))


@router.post("/search", responses=answers(list[AssistantPart], 404, headers=PAGE_HEADERS))
async def search(request: Request, body: AssistantSearchBody) -> Response:
    """The assistants that fit, the newest first unless asked otherwise."""
    check_graph(body.graph_id)
    query = AssistantQuery(
        visible_to=visible_to(request),
        graph_id=body.graph_id,
        name=body.name,
        metadata=body.metadata,
        limit=body.limit,
        offset=body.offset,
        sort_by=body.sort_by or "created_at",
        sort_order=body.sort_order or "desc",
    )
    found = await assistants_of(request).search(query)
    headers = page_headers(await assistants_of(request).count(query), body.offset, len(found))
    return JsonResponse(selected(list(map(assistant_json, found)), body.select), headers=headers)


@router.post("/count", responses=answers(int, 404))
async def count(request: Request, body: AssistantFilterBody) -> Response:
    """How many assistants fit."""
    check_graph(body.graph_id)
    query = AssistantQuery(visible_to(request), body.graph_id, body.name, body.metadata)
    return JsonResponse(await assistants_of(request).count(query))


@router.get("/{assistant_id}", responses=answers(Assistant, 404))
async def get(request: Request, assistant_id: AssistantId) -> Response:
    """One assistant."""
    return JsonResponse(assistant_json(await assistant_of(request, assistant_id)))


@router.patch("/{assistant_id}", responses=answers(Assistant, 400, 403, 404))
async def patch(request: Request, assistant_id: AssistantId, body: AssistantPatchBody) -> Response:
    """Add a version with the changes; it is the one that counts from now on."""
    assistant = await changeable_assistant(request, assistant_id)
    patched = await assistants_of(request).patch(assistant.assistant_id, _given(request, body))
    return JsonResponse(assistant_json(patched))


@router.delete("/{assistant_id}", status_code=204, responses=failures(403, 404))
async def delete(request: Request, assistant_id: AssistantId, delete_threads: bool = False) -> Response:
    """Remove an assistant with its versions; with `delete_threads` the threads that it ran on last, too."""
    assistant = await changeable_assistant(request, assistant_id)
    if not await assistants_of(request).delete(assistant.assistant_id):
        raise NotFoundError(f"there is no assistant {assistant.assistant_id}")
    if delete_threads:
        await remove_threads_of(request, assistant)
    return Response(status_code=204)


@router.post("/{assistant_id}/versions", responses=answers(list[Assistant], 404))
async def versions(request: Request, assistant_id: AssistantId, body: VersionsBody) -> Response:
    """The versions of an assistant, the newest first."""
    assistant = await assistant_of(request, assistant_id)
    found = await assistants_of(request).versions(
        assistant.assistant_id, metadata=body.metadata, limit=body.limit, offset=body.offset
    )
    return JsonResponse(list(map(assistant_json, found)))


@router.post("/{assistant_id}/latest", responses=answers(Assistant, 403, 404))
async def set_latest(request: Request, assistant_id: AssistantId, body: LatestBody) -> Response:
    """Let a version be the one that counts."""
    assistant = await changeable_assistant(request, assistant_id)
    changed = await assistants_of(request).set_latest(assistant.assistant_id, body.version)
    return JsonResponse(assistant_json(changed))


@router.get("/{assistant_id}/graph", responses=answers(GraphDrawing, 404))
async def graph(request: Request, assistant_id: AssistantId, xray: str = "false") -> Response:
    """The nodes and edges of the assistant's graph; `xray` opens so many levels of subgraphs."""
    levels = _xray(xray)
    return JsonResponse(await asyncio.to_thread(graph_drawing, await _graph(request, assistant_id), levels))


@router.get("/{assistant_id}/schemas", responses=answers(GraphSchemas, 404))
async def schemas(request: Request, assistant_id: AssistantId) -> Response:
    """What the assistant's graph takes, holds and gives."""
    return JsonResponse(await asyncio.to_thread(graph_schemas, await _graph(request, assistant_id)))


@router.get("/{assistant_id}/subgraphs", responses=answers(dict[str, GraphSchemas], 404))
@router.get("/{assistant_id}/subgraphs/{namespace}", responses=answers(dict[str, GraphSchemas], 404))
async def subgraphs(
    request: Request, assistant_id: AssistantId, namespace: str | None = None, recurse: bool = False
) -> Response:
    """The schemas of the graphs within the assistant's graph, by namespace."""
    whole = await _graph(request, assistant_id)

    def describe() -> dict[str, Any]:
        inner: Any = whole.get_subgraphs(namespace=namespace, recurse=recurse)
        return {name: graph_schemas(subgraph) for name, subgraph in inner}

    return JsonResponse(await asyncio.to_thread(describe))


async def _graph(request: Request, assistant_id: str) -> CompiledStateGraph[Any, Any, Any, Any]:
    options = options_of(request, await assistant_of(request, assistant_id))
    assembly = await host_of(request).assembler.lead(get_loaded_extensions(), options)
    return assembly.graph


def _given(request: Request, body: AssistantPatchBody) -> dict[str, Any]:
    """What the body says of an assistant, in the form that is kept."""
    check_graph(body.graph_id)
    given = body.model_dump(include={"graph_id", "metadata", "name", "description"}, exclude_none=True)
    if body.config is not None:
        given["config"] = without_configurable(body.config)
    if body.context is not None or "configurable" in (body.config or {}):
        given["context"] = options_in(body.config, body.context)
        parse_request_options(given["context"], host_of(request).config)
    return given


def _xray(value: str) -> int | bool:
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    if value.isdecimal() and 1 <= int(value) <= MAX_XRAY:
        return int(value)
    raise InvalidRequestError(f"xray: true, false or a whole number in 1..{MAX_XRAY} is needed")
