"""How the server is, and what it is."""

from __future__ import annotations

from importlib.metadata import version

from deerflow_extension_api import require_admin
from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

from deerflow.gateway.answers import METRICS, Health, Info, Ok, answers
from deerflow.gateway.current import host_of
from deerflow.gateway.errors import error_response
from deerflow.gateway.json_requests import GatewayRoute
from deerflow.gateway.responses import JsonResponse

router = APIRouter(route_class=GatewayRoute, tags=["system"])

_INFO = {
    "version": version("deerflow"),
    "langgraph_py_version": version("langgraph"),
    "flags": {"assistants": True, "crons": False, "langsmith": False},
    "host": {"kind": "deerflow"},
}


@router.get("/ok", responses=answers(Ok))
async def ok() -> Response:
    """Whether the server answers."""
    return JsonResponse({"ok": True})


@router.get("/info", responses=answers(Info))
async def info() -> Response:
    """What the server is, and what of LangGraph's API it has."""
    return JsonResponse(_INFO)


@router.get("/metrics", response_class=Response, responses=METRICS)
async def metrics(request: Request) -> Response:
    """What Prometheus reads; with users for administrators alone."""
    require_admin(request)
    return Response(request.app.state.metrics.exposition(), media_type=CONTENT_TYPE_LATEST)


@router.get("/health/live", responses=answers(Health))
async def live() -> Response:
    """Whether the process answers."""
    return JsonResponse({"status": "ok"})


@router.get("/health/ready", responses=answers(Health))
async def ready(request: Request) -> Response:
    """Whether runs are accepted: 503 before the start, during the shutdown, and without database."""
    host = host_of(request)
    if not host.runs.accepting:
        return error_response(503, "the host is shutting down")
    await host.database.stores.runs.get("00000000-0000-0000-0000-000000000000")
    return JsonResponse({"status": "ok"})
