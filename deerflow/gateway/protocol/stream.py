"""The events of a thread as LangGraph's streaming protocol sends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from deerflow.gateway import sse
from deerflow.gateway.protocol.events import ProtocolEvent, RunTranslator
from deerflow.gateway.protocol.filter import EventStreamBody
from deerflow.gateway.threads.feed import Part, ThreadFeed
from deerflow.gateway.threads.numbers import ThreadNumbers


async def protocol_frames(
    feed: ThreadFeed, wanted: EventStreamBody, heartbeat_seconds: float
) -> AsyncGenerator[bytes]:
    """The frames of what a client asked for, and a comment wherever nothing was sent for a while."""
    translation = _Translation()
    clock = asyncio.get_running_loop().time
    sent_at = clock()
    async with aclosing(feed.parts(heartbeat_seconds)) as parts:
        async for part in parts:
            lines = b"".join(_frame(event) for event in translation.events(part) if wanted.wants(event))
            if lines or clock() - sent_at >= heartbeat_seconds:
                yield lines or sse.HEARTBEAT
                sent_at = clock()


class _Translation:
    """The runs of a thread, one after the other."""

    def __init__(self) -> None:
        self._numbers = ThreadNumbers()
        self._run_id: str | None = None
        self._translator: RunTranslator | None = None

    def events(self, part: Part) -> list[ProtocolEvent]:
        if part.run is None:
            return []
        if self._translator is None or self._run_id != part.run.run_id:
            self._run_id = part.run.run_id
            self._translator = RunTranslator(part.run.run_id, part.run.created_at, self._numbers)
        return [told for event in part.events for told in self._translator.events(event)]


def _frame(event: ProtocolEvent) -> bytes:
    return b"event: %b\ndata: %b\nid: %d\n\n" % (event.method.encode(), event.encoded(), event.seq)
