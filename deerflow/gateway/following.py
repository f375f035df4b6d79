"""Responses that follow a run to its end: its events, or what it came to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from deerflow.cancellation import keep_alive
from deerflow.errors import NotFoundError
from deerflow.gateway import sse
from deerflow.gateway.current import host_of, run_of, thread_of, visible_to
from deerflow.gateway.responses import JsonResponse, LastingResponse
from deerflow.gateway.results import result_chunks, result_of, result_of_record, result_of_removed
from deerflow.gateway.shapes import interrupt_json
from deerflow.runs.active import ActiveRun
from deerflow.runs.events.log import EventReader
from deerflow.runs.hosts.foreign import ForeignReader
from deerflow.runs.hosts.left import LeftRun
from deerflow.runs.recent import EndedRun
from deerflow.runs.record import ACTIVE_STATUSES, RunRecord
from deerflow.runs.request import checked_id
from deerflow.runs.request_record import is_temporary
from deerflow.runs.serialize import encode_json
from deerflow.runs.service import RunService

LEFT_TRIES = 6
LEFT_PAUSE_SECONDS = 0.5

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
    try:
        return await run_of(request, thread_id, run_id)
    except NotFoundError:
        left = await _left_soon(runs, run_id)
        if left is None or left.thread_id != thread_id or visible_to(request) not in (None, left.user_id):
            raise
        return left


def stream_run(request: Request, run: AnyRun, following: Following) -> LastingResponse:
    """The run's events as they come; of an ended one what the client lacks, or the end alone."""
    host = host_of(request)
    chunks = sse.frames(
        _reader(host.runs, run, following.after_id),
        host.config.stream.heartbeat_seconds,
        sse.events_of(following.modes),
    )
    return LastingResponse(
        chunks,
        media_type=sse.MEDIA_TYPE,
        headers=sse.HEADERS | locations(run, "stream"),
        on_leave=_stop(host.runs, run) if following.is_bound else None,
    )


def _reader(runs: RunService, run: AnyRun, after_id: int | None) -> EventReader | ForeignReader:
    if isinstance(run, RunRecord):
        return runs.follow(run, after_id)
    if isinstance(run, EndedRun) and after_id is None:
        after_id = run.log.last_id - 1
    return run.log.reader(after_id)


def wait_for_run(request: Request, run: ActiveRun, *, is_bound: bool) -> LastingResponse:
    """What the run came to, once it has ended."""
    return LastingResponse(
        result_chunks(run, host_of(request).config.stream.heartbeat_seconds),
        media_type="application/json",
        headers=locations(run, "join"),
        on_leave=_stop(host_of(request).runs, run) if is_bound else None,
    )


async def join_run(request: Request, run: AnyRun, *, is_bound: bool) -> JsonResponse | LastingResponse:
    """What the run came to; one that has ended is answered at once."""
    if isinstance(run, ActiveRun):
        return wait_for_run(request, run, is_bound=is_bound)
    if isinstance(run, EndedRun) and run.values is not None:
        return JsonResponse(result_of(run.ending, run.values), headers=locations(run, "join"))
    headers = locations(run, "join")
    if isinstance(run, LeftRun):
        return JsonResponse(_left_result(run), headers=headers)
    if isinstance(run, RunRecord) and run.status in ACTIVE_STATUSES:
        leave = _stop(host_of(request).runs, run) if is_bound else None
        chunks = _foreign_result(request, run)
        return LastingResponse(chunks, media_type="application/json", headers=headers, on_leave=leave)
    record = run if isinstance(run, RunRecord) else await run_of(request, run.thread_id, run.run_id)
    return JsonResponse(await _last_result(request, record), headers=headers)


def locations(run: AnyRun, suffix: str) -> dict[str, str]:
    """Where clients find the run, and where they go on with it when they lose the connection."""
    path = f"/threads/{run.thread_id}/runs/{run.run_id}"
    return {"Location": f"{path}/{suffix}", "Content-Location": path}


def _stop(runs: RunService, run: AnyRun) -> Callable[[], None]:
    def stop() -> None:
        if isinstance(run, ActiveRun) and not run.ended.is_set():
            run.stop("disconnected")
        elif isinstance(run, RunRecord):
            keep_alive(asyncio.create_task(_stop_elsewhere(runs, run.run_id)))

    return stop


async def _stop_elsewhere(runs: RunService, run_id: str) -> None:
    await runs.stop(run_id, reason="disconnected", wait=False)


async def _foreign_result(request: Request, run: RunRecord) -> AsyncGenerator[bytes]:
    """What a run of another host came to; until then, now and then, whitespace."""
    host = host_of(request)
    reader = host.runs.follow(run, None)
    while (batch := await reader.next(host.config.stream.heartbeat_seconds)) is not None:
        if not batch:
            yield b"\n"
    yield encode_json(await _last_result(request, run))


async def _last_result(request: Request, run: RunRecord) -> Mapping[str, Any]:
    """What a run that has ended came to: its thread tells, or where that is gone, what the run left."""
    try:
        run = await run_of(request, run.thread_id, run.run_id)
        if run.status in ACTIVE_STATUSES:  # half an answer makes clients ask again, at another host
            raise ConnectionAbortedError("this host closes before the run has ended")
        return await _recorded_result(request, run)
    except NotFoundError:
        left = await _left_soon(host_of(request).runs, run.run_id, is_temporary=is_temporary(run))
        return result_of_removed(run.run_id) if left is None else _left_result(left)


async def _left_soon(runs: RunService, run_id: str, *, is_temporary: bool = False) -> LeftRun | None:
    """What is left of a run on a temporary thread: its host tells that a moment after the thread is gone."""
    for _ in range(LEFT_TRIES if runs.shares_events else 0):
        is_awaited = is_temporary or await runs.awaits_end(run_id)  # asked first: the end may come meanwhile
        left = await runs.find_left(run_id)
        if left is not None or not is_awaited:
            return left
        await asyncio.sleep(LEFT_PAUSE_SECONDS)
    return None


def _left_result(run: LeftRun) -> Mapping[str, Any]:
    return result_of_record(run, run.values, list(run.interrupts))


async def _recorded_result(request: Request, record: RunRecord) -> Mapping[str, Any]:
    state = await host_of(request).states.read(await thread_of(request, record.thread_id))
    await thread_of(request, record.thread_id)  # a thread that went meanwhile may have been read as empty
    interrupts = [interrupt_json(interrupt) for interrupt in state.interrupts]
    return result_of_record(record, state.values, interrupts)
