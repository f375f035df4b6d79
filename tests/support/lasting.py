"""Streams that do not end by themselves, read in process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from support.gateways import Event, GatewayClient, parse_events


class LastingStream:
    """What came of a response so far."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.is_over = False
        self._change = asyncio.Condition()

    @property
    def events(self) -> list[Event]:
        whole, _, _ = self.body.rpartition(b"\n\n")
        return parse_events(whole.decode())

    async def until(self, condition: Callable[[list[Event]], Any]) -> list[Event]:
        """The events, as soon as a condition holds for them, or the response is over."""
        async with asyncio.timeout(20), self._change:
            await self._change.wait_for(lambda: self.is_over or condition(self.events))
        return self.events

    async def until_body(self, condition: Callable[[bytes], Any]) -> bytes:
        """The same of what came as it is, where it is no stream of events."""
        async with asyncio.timeout(20), self._change:
            await self._change.wait_for(lambda: self.is_over or condition(self.body))
        return self.body

    async def take(self, message: Mapping[str, Any]) -> None:
        """Note what the application sends."""
        async with self._change:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            else:
                self.body += message.get("body", b"")
                self.is_over = not message.get("more_body", False)
            self._change.notify_all()

    async def begun(self) -> None:
        """Return when the status is known."""
        async with asyncio.timeout(20), self._change:
            await self._change.wait_for(lambda: self.status)


@asynccontextmanager
async def lasting(
    client: GatewayClient,
    method: str,
    path: str,
    *,
    json: Any = None,
    headers: Mapping[str, str] | None = None,
) -> AsyncIterator[LastingStream]:
    """A request whose response is read as it comes; on the way out the client leaves."""
    request = client.build_request(method, path, json=json, headers=dict(headers or {}))
    scope = {
        "type": "http",
        "method": method,
        "path": request.url.path,
        "raw_path": request.url.raw_path.partition(b"?")[0],
        "query_string": request.url.query,
        "root_path": "",
        "scheme": "http",
        "http_version": "1.1",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": ("127.0.0.1", 1),
        "server": ("gateway", 80),
        "state": {},
    }
    stream, gone = LastingStream(), asyncio.Event()
    sent = [{"type": "http.request", "body": request.content, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if sent:
            return sent.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    answering = asyncio.create_task(client.app(scope, receive, stream.take))  # type: ignore[arg-type]
    try:
        await stream.begun()
        yield stream
    finally:
        gone.set()
        await asyncio.wait_for(answering, 20)
