"""A receiver of webhooks on a free port of the loopback interface, and names that lead to it or elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson


@dataclass
class Call:
    """One request as it came."""

    line: str
    headers: dict[str, str]
    body: Any


@dataclass
class Receiver:
    """What was received. `statuses` are the answers, the last one for all that follow; 0: none at all."""

    origin: str
    statuses: Sequence[int] = (200,)
    calls: list[Call] = field(default_factory=list)
    _arrival: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def until(self, count: int) -> list[Call]:
        """The calls, once there are so many."""
        async with asyncio.timeout(20), self._arrival:
            await self._arrival.wait_for(lambda: len(self.calls) >= count)
        return self.calls

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take one request."""
        line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers = {name.lower(): value for name, value in (item.split(": ", 1) for item in lines)}
        body = orjson.loads(await reader.readexactly(int(headers["content-length"])))
        status = self.statuses[min(len(self.calls), len(self.statuses) - 1)]
        async with self._arrival:
            self.calls.append(Call(line, headers, body))
            self._arrival.notify_all()
        if status:
            location = f"location: {self.origin}/elsewhere\r\n" if 300 <= status < 400 else ""
            writer.write(f"HTTP/1.1 {status} X\r\n{location}content-length: 2\r\n\r\nok".encode())
            await writer.drain()
        writer.close()


@asynccontextmanager
async def receiving(*statuses: int) -> AsyncIterator[Receiver]:
    """A receiver that answers so, one request after the other."""
    receiver = Receiver("", statuses or (200,))
    server = await asyncio.start_server(receiver.answer, "127.0.0.1", 0)
    receiver.origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield receiver
    finally:
        server.close()
        await server.wait_closed()


def answering(*addresses: str) -> Any:
    """What takes the place of `socket.getaddrinfo`: a name service that knows one answer."""
    return lambda host, port, **_: [(2, 1, 6, "", (address, 0)) for address in addresses]
