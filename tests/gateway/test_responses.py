"""How a body that lasts ends, with its own error or with its request."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from deerflow.gateway.responses import LastingResponse


async def _never_gone() -> dict[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


async def _failing(asked: asyncio.Event) -> AsyncGenerator[bytes]:
    try:
        yield b"first"
        asked.set()
        await asyncio.Event().wait()
    finally:
        raise RuntimeError("the database is closed")


async def _sent(_: Any) -> None:
    pass


async def test_an_error_of_the_body_reaches_the_server() -> None:
    async def failing() -> AsyncGenerator[bytes]:
        yield b"first"
        raise RuntimeError("the database is closed")

    with pytest.raises(RuntimeError, match="the database is closed"):
        await LastingResponse(failing(), media_type="text/plain")({}, _never_gone, _sent)


async def test_an_error_of_a_body_whose_request_is_cancelled_is_not_told_as_a_forgotten_one() -> None:
    asked, told = asyncio.Event(), list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    response = LastingResponse(_failing(asked), media_type="text/plain")
    answering = asyncio.create_task(response({}, _never_gone, _sent))
    await asked.wait()
    answering.cancel()
    await asyncio.wait({answering})  # nothing is raised, so that no traceback holds its tasks
    assert answering.cancelled()
    del answering
    gc.collect()
    assert told == []
