"""A Job's events as server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from axonx.components.job.base import EventStream
from axonx.components.job.events import ResultEvent, StepEvent
from axonx.components.job.fold import NO_RESULT
from axonx.components.job.outcome import failure_text
from axonx.service.connection import run_while_connected
from axonx.service.responses import NO_STORE

KEEP_ALIVE = b": keep-alive\n\n"


def frame(event: StepEvent | ResultEvent) -> bytes:
    """One event as the lines that a client reads; its JSON stands in one line."""
    return f"event: {event.kind}\ndata: {event.model_dump_json()}\n\n".encode()


async def frames(events: EventStream) -> AsyncGenerator[bytes, None]:
    """The frames of a stream, which end with one result whatever happens to the stream."""
    problem = NO_RESULT
    async with aclosing(events):
        try:
            async for event in events:
                yield frame(event)
                if isinstance(event, ResultEvent):
                    return
        except Exception as error:  # noqa: BLE001 - the response has begun, so the client gets it as its result
            problem = failure_text(error)
    yield frame(ResultEvent(answer=problem.encode("utf-8", "replace").decode(), success=False))


class EventStreamResponse(StreamingResponse):
    """Sends the events while the client is there; when it goes, the Job is cancelled.

    A comment is sent whenever nothing else was sent for `keep_alive_seconds`.
    """

    def __init__(self, events: EventStream, keep_alive_seconds: float) -> None:
        headers = {**NO_STORE, "X-Accel-Buffering": "no"}
        super().__init__((), headers=headers, media_type="text/event-stream")
        self._events = events
        self._keep_alive_seconds = keep_alive_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await run_while_connected(receive, self._send_all(send))

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        clock = _IdleClock()
        keep_alive = asyncio.create_task(self._keep_alive(send, clock))
        try:
            async with aclosing(frames(self._events)) as lines:
                async for line in lines:
                    await send({"type": "http.response.body", "body": line, "more_body": True})
                    clock.touch()
        finally:
            keep_alive.cancel()
            await asyncio.wait({keep_alive})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _keep_alive(self, send: Send, clock: _IdleClock) -> None:
        while True:
            await asyncio.sleep(self._keep_alive_seconds - clock.idle_seconds())
            if clock.idle_seconds() >= self._keep_alive_seconds:
                await send({"type": "http.response.body", "body": KEEP_ALIVE, "more_body": True})
                clock.touch()


class _IdleClock:
    def __init__(self) -> None:
        self._time = asyncio.get_running_loop().time
        self.touch()

    def touch(self) -> None:
        self._touched = self._time()

    def idle_seconds(self) -> float:
        return self._time() - self._touched
