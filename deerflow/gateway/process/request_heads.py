"""No request whose head (request line and headers) is larger, or slower, than any client's has to be."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from deerflow.gateway.errors import error_response

MAX_HEAD_BYTES: Final = 64 * 1024
HEAD_SECONDS = 60.0
_TOO_LARGE: Final = bytes(
    error_response(431, f"the request's headers are larger than {MAX_HEAD_BYTES} bytes").body
)
_REFUSAL: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(_TOO_LARGE), _TOO_LARGE)
)


class BoundedHeads(HttpToolsProtocol):
    """uvicorn's fast reader of requests. By itself it keeps whatever is sent as a header, and waits for it:
    before anybody has asked who is calling, a few would fill the memory, or many take all connections."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_bytes = 0
        self._pending_bytes = 0
        self._has_moved_on = False
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_timer()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = 0
        self._expect_head()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._has_moved_on = True
        self._forget_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._has_moved_on = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._has_moved_on = True
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        self._has_moved_on = False
        super().data_received(data)
        # A header is told only when it is whole; until then the parser keeps what has come.
        self._pending_bytes = 0 if self._has_moved_on else self._pending_bytes + len(data)
        if self._pending_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse()

    def send_400_response(self, msg: str) -> None:
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse()
        else:
            super().send_400_response(msg)

    def _expect_head(self) -> None:
        self._forget_timer()
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _forget_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _count(self, length_bytes: int) -> None:
        self._head_bytes += length_bytes
        if self._head_bytes > MAX_HEAD_BYTES:
            raise ValueError("the head is too large")  # ends the parsing; uvicorn refuses the request

    def _refuse(self) -> None:
        self.transport.write(_REFUSAL)
        self.transport.close()
