"""The events of a thread, those of its runs as their own streams have them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from starlette.requests import Request

from deerflow.gateway import sse
from deerflow.gateway.current import host_of, thread_of
from deerflow.gateway.shapes import state_json
from deerflow.gateway.threads.feed import FollowedRun, Part, ThreadFeed
from deerflow.gateway.threads.numbers import ThreadNumbers
from deerflow.runs.events.log import RunEvent
from deerflow.runs.serialize import encode_json

THREAD_MODES: Final = ("run_modes", "lifecycle", "state_update")


async def thread_frames(
    feed: ThreadFeed, modes: Collection[str], after: int, heartbeat_seconds: float
) -> AsyncGenerator[bytes]:
    """The frames numbered above `after`, and a comment wherever nothing was sent for a while."""
    numbers = ThreadNumbers()
    clock = asyncio.get_running_loop().time
    sent_at = clock()
    async with aclosing(feed.parts(heartbeat_seconds)) as parts:
        async for part in parts:
            lines = b"".join(
                sse.frame(event) for event in _events(part, numbers, modes) if _is_new(event, after)
            )
            if lines or clock() - sent_at >= heartbeat_seconds:
                yield lines or sse.HEARTBEAT
                sent_at = clock()


async def tell_state_update(request: Request, thread_id: str) -> None:
    """Tell those who follow a thread that somebody changed its state."""
    host = host_of(request)
    if host.runs.notices.has_readers(thread_id):
        state = await host.states.read(await thread_of(request, thread_id))
        payload = encode_json({"state": state_json(state), "thread_id": thread_id})
        host.runs.notices.tell(thread_id, RunEvent(None, "state_update", payload))


def _events(part: Part, numbers: ThreadNumbers, modes: Collection[str]) -> Iterator[RunEvent]:
    if part.run is None:
        if part.notice is not None and "state_update" in modes:
            yield part.notice
        return
    for event in part.events:
        told = _of_thread(part.run, event, numbers)
        if "run_modes" in modes or ("lifecycle" in modes and told.name == "metadata"):
            yield told


def _is_new(event: RunEvent, after: int) -> bool:
    return event.id is None or event.id > after


def _of_thread(run: FollowedRun, event: RunEvent, numbers: ThreadNumbers) -> RunEvent:
    """An event of a run under the thread's number; its end is told as clients of threads expect it."""
    if event.name == "gap":
        return event
    number = numbers.next(run.created_at, event.id or 0)
    if event.name == "end":
        done = encode_json({"status": "run_done", "run_id": run.run_id})
        return RunEvent(number, "metadata", done)
    return replace(event, id=number)
