"""Runs on a thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response

from deerflow.errors import ConflictError, NotFoundError
from deerflow.gateway.answers import (
    ACCEPTED,
    ANY_JSON,
    EVENT_STREAM,
    Run,
    RunPart,
    answers,
    failures,
    streamed,
)
from deerflow.gateway.assistants import assistant_of
from deerflow.gateway.bodies.runs import RunBody, run_request
from deerflow.gateway.current import host_of, owner_of, run_of, run_owner, thread_of, visible_to
from deerflow.gateway.following import (
    AnyRun,
    Following,
    find_run,
    join_run,
    locations,
    stream_run,
    wait_for_run,
)
from deerflow.gateway.json_requests import GatewayRoute
from deerflow.gateway.pages import Limit, Offset
from deerflow.gateway.parameters import RunId, ThreadId, listed_modes
from deerflow.gateway.responses import JsonResponse
from deerflow.gateway.selection import selected
from deerflow.gateway.shapes import new_run_json, run_json
from deerflow.gateway.sse import parse_last_event_id
from deerflow.gateway.webhooks.addresses import check_webhook
from deerflow.runs.active import ActiveRun
from deerflow.runs.ending import ROLLBACK, was_stopped
from deerflow.runs.recent import EndedRun
from deerflow.runs.record import RunStatus
from deerflow.runs.request import checked_id

router = APIRouter(route_class=GatewayRoute, tags=["runs"], prefix="/threads/{thread_id}/runs")

CancelAction = Literal["interrupt", "rollback"]
STOP_REASONS: Final[Mapping[CancelAction, str]] = {"interrupt": "cancelled", "rollback": ROLLBACK}


@router.post("", responses=answers(Run, 400, 404, 409, headers=("Content-Location",)))
async def create(request: Request, thread_id: ThreadId, body: RunBody) -> Response:
    """Start a run in the background."""
    run = await _start(request, thread_id, body)
    return created(run)


@router.post("/stream", response_class=Response, responses=streamed(EVENT_STREAM, 400, 404, 409))
async def stream(request: Request, thread_id: ThreadId, body: RunBody) -> Response:
    """Start a run and send its events as they come."""
    run = await _start(request, thread_id, body)
    return stream_run(request, run, Following(is_bound=body.on_disconnect == "cancel"))


@router.post("/wait", responses=streamed(ANY_JSON, 400, 404, 409))
async def wait(request: Request, thread_id: ThreadId, body: RunBody) -> Response:
    """Start a run and send what it came to."""
    run = await _start(request, thread_id, body)
    return wait_for_run(request, run, is_bound=body.on_disconnect == "cancel")


@router.get("", responses=answers(list[RunPart], 404))
async def list_runs(
    request: Request,
    thread_id: ThreadId,
    limit: Limit = 10,
    offset: Offset = 0,
    status: RunStatus | None = None,
    select: Annotated[list[str] | None, Query()] = None,
) -> Response:
    """The runs of a thread, newest first."""
    thread = await thread_of(request, thread_id)
    runs = await host_of(request).database.stores.runs.list_by_thread(
        thread.thread_id, status=status, limit=limit, offset=offset
    )
    return JsonResponse(selected([run_json(run) for run in runs], select))


@router.get("/{run_id}", responses=answers(Run, 404))
async def get(request: Request, thread_id: ThreadId, run_id: RunId) -> Response:
    """One run."""
    return JsonResponse(run_json(await run_of(request, thread_id, run_id)))


@router.delete("/{run_id}", status_code=204, responses=failures(404))
async def delete(request: Request, thread_id: ThreadId, run_id: RunId) -> Response:
    """Stop a run where it is under way, and remove its record; the thread's state stays."""
    run = await run_of(request, thread_id, run_id)
    if not await host_of(request).runs.remove_run(run.run_id, thread_id=run.thread_id):
        raise NotFoundError(f"there is no run {run.run_id} on thread {run.thread_id}")
    return Response(status_code=204)


@router.get("/{run_id}/join", responses=streamed(ANY_JSON, 404))
async def join(
    request: Request, thread_id: ThreadId, run_id: RunId, cancel_on_disconnect: bool = False
) -> Response:
    """What a run came to, once it has ended."""
    run = await find_run(request, thread_id, run_id)
    return await join_run(request, run, is_bound=cancel_on_disconnect)


@router.get("/{run_id}/stream", response_class=Response, responses=streamed(EVENT_STREAM, 400, 404))
async def join_stream(
    request: Request,
    thread_id: ThreadId,
    run_id: RunId,
    cancel_on_disconnect: bool = False,
    stream_mode: Annotated[list[str] | None, Query()] = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """The events of a run after `Last-Event-ID`; without it what comes from now on."""
    after_id = parse_last_event_id(last_event_id)
    run = await find_run(request, thread_id, run_id)
    following = Following(after_id, listed_modes(stream_mode), is_bound=cancel_on_disconnect)
    return stream_run(request, run, following)


@router.post("/{run_id}/cancel", responses=streamed(ANY_JSON, 404, 409) | ACCEPTED)
async def cancel(
    request: Request,
    thread_id: ThreadId,
    run_id: RunId,
    wait: bool = False,
    action: CancelAction = "interrupt",
) -> Response:
    """Stop a run. 202, also for one that was stopped before; with `wait` its state, once it has ended.

    With `rollback` nothing of the run stays: neither its record nor what it did to the thread's state.
    409 for a run that came to its own end, and for rolling back one that has ended.
    """
    run = await find_run(request, thread_id, run_id)
    if not await host_of(request).runs.stop(run.run_id, reason=STOP_REASONS[action], wait=wait):
        _check_was_stopped(run, action)
    if not wait:
        return Response(status_code=202)
    values = run.values if isinstance(run, ActiveRun) and action == "interrupt" else {}
    return JsonResponse(values, headers=locations(run, "join"))


def created(run: ActiveRun) -> JsonResponse:
    """A run that was started in the background, and where to find it."""
    location = locations(run, "stream")["Content-Location"]
    return JsonResponse(new_run_json(run.record), headers={"Content-Location": location})


def _check_was_stopped(run: AnyRun, action: CancelAction) -> None:
    ending = run.ending if isinstance(run, EndedRun) else run
    assert not isinstance(ending, ActiveRun), "an active run is stopped"
    if action == "rollback" or not was_stopped(ending.status, ending.stop_reason):
        raise ConflictError(f"run {run.run_id} has ended: it is {ending.status.value!r}")


async def _start(request: Request, thread_id: str, body: RunBody) -> ActiveRun:
    thread_id = checked_id(thread_id, "thread_id")
    assistant = await assistant_of(request, body.assistant_id)
    check_webhook(body.webhook, host_of(request).config.webhooks)
    of_any_owner = visible_to(request) is None
    if not of_any_owner:  # a stranger holds up nothing on the thread, however shortly
        await run_owner(request, thread_id)
    asked = run_request(body, thread_id, owner_of(request), assistant)
    return await host_of(request).runs.start(asked, of_any_owner=of_any_owner)
