"""Receive the body of a request as a file: piece by piece, bounded, and off the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from deerflow.agents.workspace import IncomingFile, Workspace
from deerflow.agents.workspace.worker import in_worker
from deerflow.cancellation import uninterrupted
from deerflow.gateway.body_limit import announced_bytes

# Who sends nothing for this long has left, whatever the socket says.
STALLED_SECONDS = 60.0
# So much is gathered before it goes to the disk: each way to a worker thread costs more than the writing.
PIECE_BYTES = 1 << 20

T = TypeVar("T")


@asynccontextmanager
async def received(
    request: Request, workspace: Workspace, path: str, max_bytes: int
) -> AsyncIterator[IncomingFile]:
    """The body of `request`, complete and still aside; put it in place within the block, or it is gone.

    More than `max_bytes`: 413, as soon as that is known. Broken off or stalled: 400 or 408.
    """
    if announced_bytes(request.scope) > max_bytes:
        raise _too_large(max_bytes)
    opened: list[IncomingFile] = []  # filled by the worker: also where nobody waits for it any more
    try:
        await on_disk(lambda: opened.append(workspace.receive(path)))
        incoming = opened[0]
        async for piece in _pieces(request, max_bytes):
            await on_disk(partial(incoming.write, piece))
        yield incoming
    finally:
        for incoming in opened:
            await uninterrupted(on_disk(incoming.close), name="clearing up after an upload")


async def on_disk(work: Callable[[], T]) -> T:
    """What `work` returns, called in a worker thread."""
    return await in_worker(lambda _: work())


async def _pieces(request: Request, max_bytes: int) -> AsyncIterator[bytes]:
    room_bytes = max_bytes
    piece = bytearray()
    async for chunk in _chunks(request):
        room_bytes -= len(chunk)
        if room_bytes < 0:
            raise _too_large(max_bytes)
        piece += chunk
        if len(piece) >= PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    stream = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout(STALLED_SECONDS):
                chunk = await anext(stream, None)
        except TimeoutError:
            raise HTTPException(408, f"nothing came for {STALLED_SECONDS:g} s; send the file again") from None
        except ClientDisconnect:
            raise HTTPException(400, "the upload broke off before its end") from None
        if chunk is None:
            return
        yield chunk


def _too_large(max_bytes: int) -> HTTPException:
    # The rest of the body is not read: the connection cannot be used again.
    return HTTPException(
        413, f"the file is larger than {max_bytes} bytes (files.max_bytes)", {"Connection": "close"}
    )
