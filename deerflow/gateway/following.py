"""Responses that follow a run to its end: its events, or what it came to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import Request

from deerflow.errors import NotFoundError
from deerflow.gateway import sse
from deerflow.gateway.current import host_of, run_of, thread_of, visible_to
from deerflow.gateway.responses import JsonResponse, LastingResponse
from deerflow.gateway.results import result_chunks, result_of, result_of_record
from deerflow.gateway.shapes import interrupt_json
from deerflow.runs.active import ActiveRun
from deerflow.runs.event_log import RunEvent, gap_marker
from deerflow.runs.recent import EndedRun
from deerflow.runs.record import ACTIVE_STATUSES, RunRecord, RunStatus
from deerflow.runs.request import checked_id
from deerflow.runs.serialize import encode_json

# How often the record of a run in another process is looked at.
POLL_SECONDS = 1.0

AnyRun = ActiveRun | EndedRun | RunRecord


@dataclass(frozen=True)
class Following:
    """How a client follows: from where, which modes, and whether the run is to end with the connection."""

    after_id: int | None = 0
    modes: Collection[str] = ()
    is_bound: bool = False


async def find_run(request: Request, thread_id: str, run_id: str) -> AnyRun:
    """The run: under way here, ended here a moment ago, or as it is recorded. Else `NotFoundError`."""
    thread_id, run_id = checked_id(thread_id, "thread_id"), checked_id(run_id, "run_id")
    runs = host_of(request).runs
    run: ActiveRun | EndedRun | None = runs.find(run_id) or runs.find_ended(run_id)
    if run is not None and run.thread_id == thread_id and visible_to(request) in (None, run.user_id):
        return run
    return await run_of(request, thread_id, run_id)


def stream_run(request: Request, run: AnyRun, following: Following) -> LastingResponse:
    """The run's events as they come; of an ended one what the client lacks, or the end alone."""
    headers = sse.HEADERS | locations(run, "stream")
    heartbeat_seconds = host_of(request).config.stream.heartbeat_seconds
    if isinstance(run, ActiveRun):
        reader = run.log.reader(following.after_id)
        chunks = sse.frames(reader, heartbeat_seconds, sse.events_of(following.modes))
        leave = _stop(run) if following.is_bound else None
        return LastingResponse(chunks, media_type=sse.MEDIA_TYPE, headers=headers, on_leave=leave)
    if isinstance(run, EndedRun):
        after_id = run.log.last_id - 1 if following.after_id is None else following.after_id
        chunks = sse.frames(run.log.reader(after_id), heartbeat_seconds, sse.events_of(following.modes))
    else:
        chunks = _record_frames(request, run, following.after_id)
    return LastingResponse(chunks, media_type=sse.MEDIA_TYPE, headers=headers)


def wait_for_run(request: Request, run: ActiveRun, *, is_bound: bool) -> LastingResponse:
    """What the run came to, once it has ended."""
    return LastingResponse(
        result_chunks(run, host_of(request).config.stream.heartbeat_seconds),
        media_type="application/json",
        headers=locations(run, "join"),
        on_leave=_stop(run) if is_bound else None,
    )


async def join_run(request: Request, run: AnyRun, *, is_bound: bool) -> JsonResponse | LastingResponse:
    """What the run came to; one that has ended is answered at once."""
    if isinstance(run, ActiveRun):
        return wait_for_run(request, run, is_bound=is_bound)
    if isinstance(run, EndedRun) and run.values is not None:
        return JsonResponse(result_of(run.ending, run.values), headers=locations(run, "join"))
    if isinstance(run, EndedRun):
        record = await run_of(request, run.thread_id, run.run_id)
    else:
        record = await _ended_record(request, run)
    state = await host_of(request).states.read(await thread_of(request, record.thread_id))
    interrupts = [interrupt_json(interrupt) for interrupt in state.interrupts]
    return JsonResponse(result_of_record(record, state.values, interrupts), headers=locations(record, "join"))


def locations(run: AnyRun, suffix: str) -> dict[str, str]:
    """Where clients find the run, and where they go on with it when they lose the connection."""
    path = f"/threads/{run.thread_id}/runs/{run.run_id}"
    return {"Location": f"{path}/{suffix}", "Content-Location": path}


def _stop(run: ActiveRun) -> Callable[[], None]:
    def stop() -> None:
        if not run.ended.is_set():
            run.stop("disconnected")

    return stop


async def _record_frames(request: Request, run: RunRecord, after_id: int | None) -> AsyncGenerator[bytes]:
    """The end of a run whose events are gone, or are elsewhere."""
    if after_id is not None:
        yield sse.frame(gap_marker(after_id, None))
    while run.status in ACTIVE_STATUSES:
        yield sse.HEARTBEAT
        await asyncio.sleep(POLL_SECONDS)
        try:
            run = await run_of(request, run.thread_id, run.run_id)
        except NotFoundError:  # deleted meanwhile
            run = replace(run, status=RunStatus.INTERRUPTED)
    yield sse.frame(RunEvent(None, "end", encode_json(_end_of(run))))


async def _ended_record(request: Request, run: RunRecord) -> RunRecord:
    while run.status in ACTIVE_STATUSES:
        await asyncio.sleep(POLL_SECONDS)
        run = await run_of(request, run.thread_id, run.run_id)
    return run


def _end_of(run: RunRecord) -> Mapping[str, Any]:
    end = {"run_id": run.run_id, "thread_id": run.thread_id, "status": run.status, "usage": {}}
    return end if run.error is None else {**end, "error": run.error}
