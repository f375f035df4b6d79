"""The client `http`: Jobs of another AxonX service, with the results and errors of local ones."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from typing import Any
from urllib.parse import quote

import httpx
from httpx_sse import EventSource, SSEError
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json

from axonx.client.base import BaseClient
from axonx.client.errors import RemoteCallError
from axonx.client.refusals import refusal
from axonx.components.job.base import EventStream
from axonx.components.job.events import JOB_EVENT_ADAPTER, ResultEvent, StepEvent
from axonx.components.job.fold import NO_RESULT
from axonx.components.job.outcome import failure_text
from axonx.components.job.response import JobResponse
from axonx.components.registry import provider
from axonx.core.remote import parse_target
from axonx.errors import (
    ArgumentsTypeError,
    ConfigurationError,
    InvalidArgumentsError,
    NotRunningError,
    UnknownJobError,
)
from axonx.service.exposure import has_url

# The service sends a comment into a stream every 15 seconds.
_LONGEST_SILENCE_SECONDS = 60.0
_STREAM_TIMEOUT = httpx.Timeout(_LONGEST_SILENCE_SECONDS, connect=10)
_CALL_TIMEOUT = httpx.Timeout(_LONGEST_SILENCE_SECONDS, connect=10, read=None)
# A Job may take long without a word, so the system asks whether the other machine is still there.
_KEEP_ALIVE_OPTIONS = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)] + [
    (socket.IPPROTO_TCP, getattr(socket, name), value)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
    if hasattr(socket, name)
]


@provider("http")
class HttpClient(BaseClient):
    """Calls the Jobs of one service. Proxies of the environment are not used.

    Bad arguments and unknown Jobs raise as they do locally, in a stream with its first event. Everything
    else that goes wrong, from a refused connection to one that breaks off, is a failure result.
    `timeout_seconds` limits a whole call; without it a call lasts as long as its Job.
    """

    def __init__(self, *, timeout_seconds: float | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if timeout_seconds is not None and not 0 < timeout_seconds < float("inf"):
            raise ConfigurationError(f"timeout_seconds must be a positive number, not {timeout_seconds!r}")
        self._url = parse_target(self.address)
        self._timeout_seconds = timeout_seconds
        self._http: httpx.AsyncClient | None = None

    async def _start(self) -> None:
        # Loading certificates takes a while.
        self._http = await asyncio.to_thread(self._build)

    async def _close(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def run_job(self, name: str, arguments: Any = None) -> JobResponse:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                response = await self._running().post(self._path(name), content=_body(name, arguments))
            if response.status_code != 200:
                raise refusal(name, response.status_code, response.content)
            return JobResponse.model_validate_json(response.content)
        except _TRANSPORT_ERRORS as error:
            return JobResponse(success=False, answer=self._failure(error))

    async def stream_job(self, name: str, arguments: Any = None) -> EventStream:
        problem = NO_RESULT
        try:
            async with aclosing(self._received(name, arguments)) as events:
                async for event in events:
                    yield event
                    if isinstance(event, ResultEvent):
                        return
        except _TRANSPORT_ERRORS as error:
            problem = self._failure(error)
        yield ResultEvent(success=False, answer=problem)

    async def _received(self, name: str, arguments: Any) -> AsyncGenerator[StepEvent | ResultEvent, None]:
        """The events as they come in. The limit of the call ends waits here, not what the reader is at."""
        deadline = self._deadline()
        http, path, body = self._running(), f"{self._path(name)}/events", _body(name, arguments)
        async with AsyncExitStack() as stack:
            async with asyncio.timeout_at(deadline):
                request = http.stream("POST", path, content=body, timeout=_STREAM_TIMEOUT)
                response = await stack.enter_async_context(request)
                if response.status_code != 200:
                    raise refusal(name, response.status_code, await response.aread())
            lines = await stack.enter_async_context(aclosing(EventSource(response).aiter_sse()))
            while True:
                async with asyncio.timeout_at(deadline):
                    line = await anext(lines, None)
                if line is None:
                    return
                yield JOB_EVENT_ADAPTER.validate_json(line.data)

    def _deadline(self) -> float | None:
        if self._timeout_seconds is None:
            return None
        return asyncio.get_running_loop().time() + self._timeout_seconds

    def _running(self) -> httpx.AsyncClient:
        if self._http is None:
            raise NotRunningError(f"The client of {self._url} is not running")
        return self._http

    def _build(self) -> httpx.AsyncClient:
        headers = {"Content-Type": "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        transport = httpx.AsyncHTTPTransport(
            verify=self._url.startswith("https:"),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            socket_options=_KEEP_ALIVE_OPTIONS,
        )
        return httpx.AsyncClient(transport=transport, headers=headers, timeout=_CALL_TIMEOUT)

    def _path(self, name: str) -> str:
        if not has_url(name):
            raise UnknownJobError(f"Unknown job: {name!r}")
        return f"{self._url}/jobs/{quote(name, safe='')}"

    def _failure(self, error: BaseException) -> str:
        if isinstance(error, httpx.ReadTimeout):
            reason = f"nothing was heard for {_LONGEST_SILENCE_SECONDS:g} s"
        elif isinstance(error, TimeoutError):
            reason = f"there was no result within {self._timeout_seconds:g} s"
        elif isinstance(error, RemoteCallError):
            reason = str(error)
        elif isinstance(error, ValidationError | SSEError):
            reason = "it answered something that is no result of a Job; is there an AxonX service?"
        else:
            reason = failure_text(error)
        return failure_text(RemoteCallError(f"{self._url}: {reason}"))


_TRANSPORT_ERRORS = (httpx.HTTPError, TimeoutError, RemoteCallError, ValidationError, SSEError)


def _body(job: str, arguments: Any) -> bytes:
    try:
        values = {} if arguments is None else dict(arguments)
    except (TypeError, ValueError):
        raise ArgumentsTypeError(
            f"Invalid arguments for job {job!r}: expected a mapping of names to values, "
            f"not {type(arguments).__name__}"
        ) from None
    try:
        return to_json({"arguments": values})
    except (PydanticSerializationError, ValueError) as error:
        raise InvalidArgumentsError(f"Invalid arguments for job {job!r}: not JSON: {error}") from None
