"""Reading JSON bodies: bounded in depth, off the loop where they are large, and tolerant of half emojis."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

import orjson
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

MAX_DEPTH = 100
_LARGE_BYTES = 256 * 1024


class JsonRequest(Request):
    """A request whose JSON is decoded by the rules of this file."""

    async def json(self) -> Any:
        if not hasattr(self, "_decoded"):
            body = await self.body()
            if len(body) > _LARGE_BYTES:
                self._decoded = await asyncio.to_thread(decode_json, body)
            else:
                self._decoded = decode_json(body)
        return self._decoded


class GatewayRoute(APIRoute):
    """A host route: FastAPI's, with `JsonRequest` in place of its request."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            return await handle(JsonRequest(request.scope, request.receive))

        return handle_json


def decode_json(body: bytes) -> Any:
    """The value of `body`. What is no JSON, or nested too deeply, is refused with 422."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        value = _decode_with_halves(body, error)
    if _is_deeper_than(value, MAX_DEPTH):
        raise _refused(f"the body is nested more than {MAX_DEPTH} levels deep")
    return value


def _decode_with_halves(body: bytes, error: orjson.JSONDecodeError) -> Any:
    """Browsers send half a surrogate pair as an escape, which orjson refuses and the run path mends."""
    if b"\\u" not in body:
        raise _refused(f"the body is not valid JSON: {error}") from error
    try:
        return json.loads(body, parse_constant=_refuse_constant, parse_int=_number, parse_float=_finite)
    except (ValueError, RecursionError) as second:
        raise _refused(f"the body is not valid JSON: {error}") from second


def _is_deeper_than(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [item for parent in level for item in _items(parent)]
        if not level:
            return False
    return True


def _items(parent: Any) -> Any:
    if isinstance(parent, dict):
        return parent.values()
    return parent if isinstance(parent, list) else ()


def _number(digits: str) -> int | float:
    """The number as orjson reads it: beyond 64 bits a float, as no checkpoint holds such an integer."""
    number = int(digits)
    return number if -(2**63) <= number < 2**64 else _finite(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits[:20]}... is too large")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _refused(detail: str) -> HTTPException:
    return HTTPException(422, detail)
