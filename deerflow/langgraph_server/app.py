"""`http.app` of `langgraph.json`: loads the extensions when imported, runs their services while it serves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette

from deerflow.langgraph_server.state import dev_server

_server = dev_server()


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    async with _server.lifespan():
        yield


app = Starlette(lifespan=_lifespan)
