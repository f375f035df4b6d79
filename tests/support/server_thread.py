"""A Gateway behind a real socket, on a loop in a thread of its own: for clients that block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import FastAPI

from support.gateways import RunningServer, running_server


@contextmanager
def server_thread(app: FastAPI) -> Iterator[RunningServer]:
    """Serve `app` on a free port of the loopback interface until the end of the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="gateway under test")
    thread.start()
    context = running_server(app)
    try:
        server = asyncio.run_coroutine_threadsafe(context.__aenter__(), loop).result(30)
        try:
            yield server
        finally:
            asyncio.run_coroutine_threadsafe(context.__aexit__(None, None, None), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
