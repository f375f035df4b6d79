"""Assistants: the system's own, which can be read and not changed."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from deerflow.config import RequestOptions
from deerflow.errors import InvalidRequestError
from deerflow.extensions import get_loaded_extensions
from deerflow.gateway.assistants import resolve_assistant, system_assistant
from deerflow.gateway.current import host_of
from deerflow.gateway.graph_schemas import graph_drawing, graph_schemas
from deerflow.gateway.json_requests import GatewayRoute
from deerflow.gateway.pages import page_headers
from deerflow.gateway.responses import JsonResponse
from deerflow.gateway.selection import selected
from deerflow.persistence.containment import contains
from deerflow.runs.request import GRAPH_ID

router = APIRouter(route_class=GatewayRoute, tags=["assistants"], prefix="/assistants")

MAX_XRAY = 10


class FilterBody(BaseModel):
    """Which assistants are meant."""

    model_config = ConfigDict(extra="ignore")

    graph_id: str | None = None
    metadata: dict[str, Any] | None = None
    name: str | None = None


class SearchBody(FilterBody):
    """Which assistants to list, and how much of them."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    offset: Annotated[int, Field(ge=0)] = 0
    sort_by: Literal["assistant_id", "graph_id", "name", "created_at", "updated_at"] | None = None
    sort_order: Literal["asc", "desc"] | None = None
    select: list[str] | None = None


class VersionsBody(BaseModel):
    """Which versions to list."""

    model_config = ConfigDict(extra="ignore")

    metadata: dict[str, Any] | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 10
    offset: Annotated[int, Field(ge=0)] = 0


@router.post("/search")
async def search(body: SearchBody) -> Response:
    """The assistants that fit."""
    found = _matching(body)
    page = found[body.offset : body.offset + body.limit]
    headers = page_headers(len(found), body.offset, len(page))
    return JsonResponse(selected(page, body.select), headers=headers)


@router.post("/count")
async def count(body: FilterBody) -> Response:
    """How many assistants fit."""
    return JsonResponse(len(_matching(body)))


@router.get("/{assistant_id}")
async def get(assistant_id: str) -> Response:
    """One assistant."""
    resolve_assistant(assistant_id)
    return JsonResponse(system_assistant())


@router.post("/{assistant_id}/versions")
async def versions(assistant_id: str, body: VersionsBody) -> Response:
    """The versions of an assistant, the newest first."""
    resolve_assistant(assistant_id)
    page = [system_assistant()][body.offset : body.offset + body.limit]
    return JsonResponse([item for item in page if contains(item["metadata"], body.metadata or {})])


@router.get("/{assistant_id}/graph")
async def graph(request: Request, assistant_id: str, xray: str = "false") -> Response:
    """The nodes and edges of the assistant's graph; `xray` opens so many levels of subgraphs."""
    levels = _xray(xray)
    return JsonResponse(await asyncio.to_thread(graph_drawing, await _graph(request, assistant_id), levels))


@router.get("/{assistant_id}/schemas")
async def schemas(request: Request, assistant_id: str) -> Response:
    """What the assistant's graph takes, holds and gives."""
    return JsonResponse(await asyncio.to_thread(graph_schemas, await _graph(request, assistant_id)))


@router.get("/{assistant_id}/subgraphs")
@router.get("/{assistant_id}/subgraphs/{namespace}")
async def subgraphs(
    request: Request, assistant_id: str, namespace: str | None = None, recurse: bool = False
) -> Response:
    """The schemas of the graphs within the assistant's graph, by namespace."""
    whole = await _graph(request, assistant_id)

    def describe() -> dict[str, Any]:
        inner: Any = whole.get_subgraphs(namespace=namespace, recurse=recurse)
        return {name: graph_schemas(subgraph) for name, subgraph in inner}

    return JsonResponse(await asyncio.to_thread(describe))


async def _graph(request: Request, assistant_id: str) -> CompiledStateGraph[Any, Any, Any, Any]:
    resolve_assistant(assistant_id)
    assembly = await host_of(request).assembler.lead(get_loaded_extensions(), RequestOptions())
    return assembly.graph


def _matching(body: FilterBody) -> list[dict[str, Any]]:
    if body.graph_id not in (None, GRAPH_ID):
        return []
    assistant = system_assistant()
    fits = (body.name or "").lower() in assistant["name"] and contains(
        assistant["metadata"], body.metadata or {}
    )
    return [assistant] if fits else []


def _xray(value: str) -> int | bool:
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    if value.isdecimal() and 1 <= int(value) <= MAX_XRAY:
        return int(value)
    raise InvalidRequestError(f"xray: true, false or a whole number in 1..{MAX_XRAY} is needed")
