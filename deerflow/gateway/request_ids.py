"""Each request has an id: the client's, where it sent one that is fit for a log, else a new one."""

from __future__ import annotations

import re
from typing import Final
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deerflow.log_ids import bearing_log_ids

REQUEST_ID_HEADER: Final = "X-Request-ID"
_FIT = re.compile(r"[A-Za-z0-9._:+=/-]{1,128}")


class RequestIds:
    """Middleware that names each request in the log and in the answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(REQUEST_ID_HEADER, "")
        request_id = given if _FIT.fullmatch(given) else uuid4().hex

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[REQUEST_ID_HEADER] = request_id
            await send(message)

        with bearing_log_ids(request_id=request_id):
            await self._app(scope, receive, send_named)
