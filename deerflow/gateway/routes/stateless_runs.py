"""Runs without a thread of the client's: each gets one of its own, removed at its end unless it is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal
from uuid import uuid4

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from deerflow.errors import InvalidRequestError, NotFoundError
from deerflow.gateway.answers import ANY_JSON, EVENT_STREAM, Run, answers, failures, streamed
from deerflow.gateway.assistants import assistant_of
from deerflow.gateway.bodies.runs import StatelessRunBody, run_request
from deerflow.gateway.current import host_of, owner_of, thread_of, visible_to
from deerflow.gateway.following import Following, stream_run, wait_for_run
from deerflow.gateway.json_requests import GatewayRoute
from deerflow.gateway.responses import JsonResponse
from deerflow.gateway.routes.thread_runs import STOP_REASONS, CancelAction, created
from deerflow.gateway.shapes import new_run_json
from deerflow.gateway.webhooks.addresses import check_webhook
from deerflow.runs.active import ActiveRun
from deerflow.runs.request import checked_id

router = APIRouter(route_class=GatewayRoute, tags=["runs"], prefix="/runs")


class CancelBody(BaseModel):
    """Which runs to stop: some of a thread, or all with a status."""

    model_config = ConfigDict(extra="ignore")

    thread_id: str | None = None
    run_ids: Annotated[list[str], Field(max_length=1000)] | None = None
    status: Literal["pending", "running", "all"] | None = None


@router.post("", responses=answers(Run, 400, 404, headers=("Content-Location",)))
async def create(request: Request, body: StatelessRunBody) -> Response:
    """Start a run in the background."""
    return created(await _start(request, body))


@router.post("/batch", responses=answers(list[Run], 400, 404))
async def create_batch(
    request: Request, bodies: Annotated[list[StatelessRunBody], Field(min_length=1, max_length=100)]
) -> Response:
    """Start several runs in the background."""
    runs = [await _start(request, body) for body in bodies]
    return JsonResponse([new_run_json(run.record) for run in runs])


@router.post("/stream", response_class=Response, responses=streamed(EVENT_STREAM, 400, 404))
async def stream(request: Request, body: StatelessRunBody) -> Response:
    """Start a run and send its events as they come."""
    run = await _start(request, body)
    return stream_run(request, run, Following(is_bound=body.on_disconnect == "cancel"))


@router.post("/wait", responses=streamed(ANY_JSON, 400, 404))
async def wait(request: Request, body: StatelessRunBody) -> Response:
    """Start a run and send what it came to."""
    run = await _start(request, body)
    return wait_for_run(request, run, is_bound=body.on_disconnect == "cancel")


@router.post("/cancel", status_code=204, responses=failures(404))
async def cancel(request: Request, body: CancelBody, action: CancelAction = "interrupt") -> Response:
    """Stop several runs; 404 where there is none to be stopped. With `rollback` nothing of them stays."""
    stopped = 0
    for run_id in await _named_runs(request, body):
        stopped += await host_of(request).runs.stop(run_id, reason=STOP_REASONS[action], wait=False)
    if not stopped:
        raise NotFoundError("none of these runs is under way")
    return Response(status_code=204)


async def _start(request: Request, body: StatelessRunBody) -> ActiveRun:
    if body.command is not None and body.command.resume is not None:
        raise HTTPException(400, "command.resume: name the thread whose run is to go on")
    assistant = await assistant_of(request, body.assistant_id)
    check_webhook(body.webhook, host_of(request).config.webhooks)
    asked = run_request(body, str(uuid4()), owner_of(request), assistant)
    is_temporary = body.on_completion != "keep"
    durability = asked.durability or ("exit" if is_temporary else None)
    return await host_of(request).runs.start(
        replace(asked, if_not_exists="create", temporary=is_temporary, durability=durability)
    )


async def _named_runs(request: Request, body: CancelBody) -> list[str]:
    host, owner = host_of(request), visible_to(request)
    if body.status is not None:
        if body.thread_id is not None or body.run_ids is not None:
            raise InvalidRequestError("status: stands alone, without thread_id and run_ids")
        active = await host.database.stores.runs.list_active()
        wanted = {"pending", "running"} if body.status == "all" else {body.status}
        return [run.run_id for run in active if run.status in wanted and owner in (None, run.user_id)]
    if body.thread_id is None or body.run_ids is None:
        raise InvalidRequestError("thread_id and run_ids are needed, or a status")
    thread = await thread_of(request, body.thread_id)
    run_ids = {checked_id(run_id, "run_ids") for run_id in body.run_ids}
    active = await host.database.stores.runs.list_active(thread_id=thread.thread_id)
    return [run.run_id for run in active if run.run_id in run_ids]
