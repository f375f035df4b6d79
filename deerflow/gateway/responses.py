"""Responses of the Gateway: JSON at once, or a body that lasts as long as a run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from deerflow.runs.serialize import encode_json

logger = logging.getLogger(__name__)

# A client that takes nothing for this long is gone, whatever its socket says.
SEND_SECONDS = 120.0


class JsonResponse(Response):
    """Any value as JSON: records, states and messages included."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return encode_json(content)


class LastingResponse(Response):
    """A body that is sent as it comes into being.

    `on_leave` is called where the client goes before the last chunk was made.
    """

    def __init__(
        self,
        chunks: AsyncGenerator[bytes],
        *,
        media_type: str,
        headers: Mapping[str, str] | None = None,
        on_leave: Callable[[], None] | None = None,
    ) -> None:
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.body = b""
        self.init_headers(headers)
        del self.headers["content-length"]
        self._chunks = chunks
        self._on_leave = on_leave
        self._complete = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        pump = asyncio.create_task(self._pump(send))
        watch = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait({pump, watch}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pump.cancel()
            watch.cancel()
            if not self._complete and self._on_leave is not None:
                self._on_leave()
            await asyncio.wait({pump, watch})
            # Asked for also where this is cancelled itself: asyncio tells of errors that nobody asked for.
            error = None if pump.cancelled() else pump.exception()
        if error is not None:
            raise error

    async def _pump(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        try:
            await send(start)
            async with aclosing(self._chunks) as chunks:
                async for chunk in chunks:
                    async with asyncio.timeout(SEND_SECONDS):
                        await send({"type": "http.response.body", "body": chunk, "more_body": True})
            self._complete = True
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (TimeoutError, OSError) as error:
            logger.info("a client stopped reading before the end: %s", error or "it took too long")


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
