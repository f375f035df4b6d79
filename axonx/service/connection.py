"""Work that lasts as long as its client is there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

T = TypeVar("T")


async def run_while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T | None:
    """Await `work`; when the client goes, cancel it, wait until it has cleaned up, and return `None`.

    The request's body must have been read.
    """
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_disconnected(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.wait({working, leaving})


async def read_body(receive: Receive) -> bytes | None:
    """The whole body; `None` if the client went before its end."""
    chunks = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(chunks)


class BodyLimit:
    """Middleware that answers 413 to a body over the limit; as much again is read and dropped.

    A client that is still sending when the connection is closed would not see the answer.
    """

    def __init__(self, app: ASGIApp, most_bytes: int) -> None:
        self._app = app
        self._most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            return message

        async def limited() -> Message:
            message = await counted()
            if read <= self._most_bytes:
                return message
            while message.get("more_body", False) and read <= 2 * self._most_bytes:
                message = await counted()
            text = f"the body is larger than {self._most_bytes} bytes (service.max_body_bytes)"
            raise HTTPException(413, text, {"Connection": "close"})

        await self._app(scope, limited, send)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
