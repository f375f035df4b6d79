"""The stream of a thread: the events of all of its runs, one run after the other."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response

from deerflow.errors import InvalidRequestError
from deerflow.gateway import sse
from deerflow.gateway.answers import EVENT_STREAM, failures
from deerflow.gateway.current import host_of, thread_of
from deerflow.gateway.json_requests import GatewayRoute
from deerflow.gateway.parameters import ThreadId, listed_modes
from deerflow.gateway.responses import LastingResponse
from deerflow.gateway.threads.feed import thread_feed
from deerflow.gateway.threads.frames import THREAD_MODES, thread_frames

router = APIRouter(route_class=GatewayRoute, tags=["threads"], prefix="/threads/{thread_id}")

_EVENTS = {200: {"description": "As they come.", "content": EVENT_STREAM}} | failures(400, 404)


@router.get("/stream", response_class=Response, responses=_EVENTS)
async def stream(
    request: Request,
    thread_id: ThreadId,
    stream_modes: Annotated[list[str] | None, Query()] = None,
    stream_mode: Annotated[list[str] | None, Query(description="Another name of `stream_modes`.")] = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """What happens on a thread after `Last-Event-ID`, until the client leaves; without it from now on.

    `run_modes` are the events of runs, `lifecycle` their beginnings and ends alone, `state_update` tells of
    states that were changed by hand.
    """
    thread = await thread_of(request, thread_id)
    modes = _modes([*(stream_modes or []), *(stream_mode or [])])
    after = sse.parse_last_event_id("-1" if last_event_id == "-" else last_event_id)
    feed = await thread_feed(request, thread.thread_id, is_live=after is None)
    frames = thread_frames(feed, modes, after or 0, host_of(request).config.stream.heartbeat_seconds)
    return LastingResponse(frames, media_type=sse.MEDIA_TYPE, headers=sse.HEADERS)


def _modes(given: list[str]) -> list[str]:
    modes = [mode.strip() for listed in listed_modes(given) for mode in listed.split(",")]
    for mode in modes:
        if mode not in THREAD_MODES:
            known = ", ".join(THREAD_MODES)
            raise InvalidRequestError(f"stream_modes: {mode[:100]!r} is none; a thread has {known}")
    return modes or ["run_modes"]
