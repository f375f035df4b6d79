"""LangGraph's streaming protocol on a thread: commands, and the events of all of its runs."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from deerflow.gateway import sse
from deerflow.gateway.answers import EVENT_STREAM, CommandAnswer, answers, failures
from deerflow.gateway.current import host_of
from deerflow.gateway.json_requests import GatewayRoute
from deerflow.gateway.parameters import ThreadId
from deerflow.gateway.protocol.bodies import ProtocolCommandBody
from deerflow.gateway.protocol.commands import carry_out
from deerflow.gateway.protocol.filter import EventStreamBody
from deerflow.gateway.protocol.stream import protocol_frames
from deerflow.gateway.responses import JsonResponse, LastingResponse
from deerflow.gateway.threads.feed import thread_feed

router = APIRouter(route_class=GatewayRoute, tags=["streaming protocol"], prefix="/threads/{thread_id}")

_EVENTS = {200: {"description": "As they come.", "content": EVENT_STREAM}} | failures(404)


@router.post("/commands", responses=answers(CommandAnswer, 404))
async def command(request: Request, thread_id: ThreadId, body: ProtocolCommandBody) -> Response:
    """Carry out a command; one that cannot be is answered in the protocol's own terms."""
    return JsonResponse(await carry_out(request, thread_id, body))


@router.post("/stream/events", response_class=Response, responses=_EVENTS)
async def events(request: Request, thread_id: ThreadId, body: EventStreamBody) -> Response:
    """The events of a thread's runs, from those on that are still remembered, until the client leaves.

    The thread may be made later: clients listen first, and then start its first run.
    """
    feed = await thread_feed(request, thread_id)
    frames = protocol_frames(feed, body, host_of(request).config.stream.heartbeat_seconds)
    return LastingResponse(frames, media_type=sse.MEDIA_TYPE, headers=sse.HEADERS)
