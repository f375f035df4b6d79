"""A run's events as server-sent events.

The protocol: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Collection

from starlette.exceptions import HTTPException

from deerflow.runs.events.log import EventReader, RunEvent
from deerflow.runs.hosts.foreign import ForeignReader

MEDIA_TYPE = "text/event-stream"
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
HEARTBEAT = b": heartbeat\n\n"

# Told whatever a reader asked for: how the run begins and ends, and what was missed.
_ALWAYS = frozenset({"metadata", "error", "end", "gap"})
_EVENT_OF_MODE = {"messages-tuple": "messages"}
_LAST_EVENT_ID = re.compile(r"-1|\d{1,18}")


def frame(event: RunEvent) -> bytes:
    """One event as the lines that a client reads."""
    lines = b"event: %b\ndata: %b\n" % (event.name.encode(), event.payload)
    return lines + b"\n" if event.id is None else lines + b"id: %d\n\n" % event.id


async def frames(
    reader: EventReader | ForeignReader,
    heartbeat_seconds: float,
    wanted: Callable[[RunEvent], bool] | None = None,
) -> AsyncGenerator[bytes]:
    """The frames of what `reader` gives, and a comment wherever nothing was sent for a while."""
    clock = asyncio.get_running_loop().time
    sent_at = clock()
    while (batch := await reader.next(heartbeat_seconds)) is not None:
        lines = b"".join(frame(event) for event in batch if wanted is None or wanted(event))
        if lines or clock() - sent_at >= heartbeat_seconds:
            yield lines or HEARTBEAT
            sent_at = clock()


async def frames_of(events: Collection[RunEvent]) -> AsyncGenerator[bytes]:
    """The frames of events that are there already."""
    yield b"".join(map(frame, events))


def parse_last_event_id(value: str | None) -> int | None:
    """The event after which to go on; 0: the start, None: not said. Anything else is refused with 400."""
    if value is None or value == "":
        return None
    if not _LAST_EVENT_ID.fullmatch(value):
        raise HTTPException(400, "Last-Event-ID is not the id of an event: a whole number, or -1")
    return max(0, int(value))


def events_of(modes: Collection[str]) -> Callable[[RunEvent], bool] | None:
    """Whether an event belongs to one of the stream modes; None where any does."""
    if not modes:
        return None
    names = {_EVENT_OF_MODE.get(mode, mode) for mode in modes} | _ALWAYS
    return lambda event: re.split(r"[|/]", event.name, maxsplit=1)[0] in names
