"""No body larger than the host can hold, whether its length is announced or not."""

from __future__ import annotations

from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deerflow.gateway.errors import error_response

MAX_BODY_BYTES = 16 * 1024 * 1024
_TOO_LARGE = f"the body is larger than {MAX_BODY_BYTES} bytes"


class BodyLimit:
    """Middleware that answers larger bodies with 413, before or while they are read.

    Requests for which `is_exempt` is true come to a route that bounds its body itself.
    """

    def __init__(self, app: ASGIApp, is_exempt: Callable[[Scope], bool]) -> None:
        self._app = app
        self._is_exempt = is_exempt

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_exempt(scope):
            await self._app(scope, receive, send)
        elif announced_bytes(scope) > MAX_BODY_BYTES:
            await error_response(413, _TOO_LARGE)(scope, receive, send)
        else:
            await self._app(scope, _counted(receive), send)


def announced_bytes(scope: Scope) -> int:
    """The length of the body as the request gives it; 0 where it does not."""
    announced = Headers(scope=scope).get("content-length", "")
    return int(announced) if announced.isdecimal() else 0


def _counted(receive: Receive) -> Receive:
    received_bytes = 0

    async def receive_within_limit() -> Message:
        nonlocal received_bytes
        message = await receive()
        received_bytes += len(message.get("body", b""))
        if received_bytes > MAX_BODY_BYTES:
            raise HTTPException(413, _TOO_LARGE)
        return message

    return receive_within_limit
