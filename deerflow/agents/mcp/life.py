"""One connection to a server, from its beginning to its end."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, TypeVar

import anyio
from mcp import ClientSession, McpError
from mcp.types import CONNECTION_CLOSED, Implementation

from deerflow.agents.mcp.transport import open_transport
from deerflow.cancellation import stop_task
from deerflow.config.mcp import McpServerConfig
from deerflow.errors import DeerFlowError

logger = logging.getLogger(__name__)

T = TypeVar("T")

END_SECONDS = 10.0
PING_SECONDS = 10.0
"""How often a server is asked whether it still knows the session, while it owes an answer."""
LAST_ANSWERS_SECONDS = 2.0

_UNKNOWN_SESSION = 32600  # the SDK says so with this code, where the protocol has it negative
_US = Implementation(name="deerflow", version=version("deerflow"))


class ConnectionLostError(DeerFlowError, ConnectionError):
    """The connection ended before an answer came."""

    def __init__(self) -> None:
        super().__init__("it went away before it answered; it may have done what was asked")


def is_unknown_session(error: McpError) -> bool:
    """Whether the server knows nothing of the session, as after a restart; then it did nothing."""
    return abs(error.error.code) == _UNKNOWN_SESSION


class Life:
    """A connection in a task of its own, because what opens one has to close it.

    It carries nothing of whoever needed it first: it will serve others.
    """

    def __init__(self, name: str, server: McpServerConfig) -> None:
        self._server = server
        self._leaving = asyncio.Event()
        self._session: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._lost = False
        self._asked: set[asyncio.Future[Any]] = set()
        name = f"MCP server {name}"
        self._task = asyncio.create_task(self._live(name), name=name, context=contextvars.Context())

    @property
    def is_over(self) -> bool:
        """Whether nothing can be asked any more."""
        return self._lost or self._task.done()

    async def ask(self, request: Callable[[ClientSession], Awaitable[T]]) -> T:
        """What the server answers. Raises what kept it from being connected, or `ConnectionLostError`."""
        session = await asyncio.shield(self._session)
        asking = asyncio.ensure_future(request(session))
        self._asked.add(asking)
        try:
            await asyncio.wait({asking, self._task}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise ConnectionLostError
            return asking.result()
        except McpError as error:
            if error.error.code == CONNECTION_CLOSED:
                raise ConnectionLostError from error
            raise
        finally:
            self._asked.discard(asking)
            asking.cancel()

    async def end(self) -> None:
        """Leave the server; one that was started is stopped. Bounded."""
        self._lost = True
        self._leaving.set()
        await asyncio.wait({self._task}, timeout=END_SECONDS)
        await stop_task(self._task, grace_seconds=1.0)

    async def _live(self, name: str) -> None:
        try:
            async with open_transport(self._server) as (read, write):
                async with _watched(read) as (messages, ended):
                    async with ClientSession(messages, write, client_info=_US) as session:
                        await self._begin(session)
                        while not await _any_of(self._leaving, ended):
                            await self._ping(session)
                        self._lost = True
        except Exception as error:  # noqa: BLE001 - whoever waits for the connection is told
            self._fail(error)
            logger.info("%s: the connection ended (%s)", name, type(error).__name__)
        finally:
            self._lost = True
            self._fail(ConnectionLostError())

    def _fail(self, error: Exception) -> None:
        if not self._session.done():
            self._session.set_exception(error)
            self._session.exception()  # fetched: it may be that nobody waits for it

    async def _begin(self, session: ClientSession) -> None:
        seconds = self._server.connect_timeout_seconds
        try:
            with anyio.fail_after(seconds):
                await session.initialize()
        except TimeoutError:
            raise TimeoutError(f"it did not get ready within {seconds:g} s") from None
        self._session.set_result(session)

    async def _ping(self, session: ClientSession) -> None:
        """Over HTTP a server that died owes its answers without a word: asking it brings that out.

        One that is merely busy may take its time.
        """
        if not self._asked:
            return
        try:
            with anyio.move_on_after(PING_SECONDS):
                await session.send_ping()
        except McpError as error:
            if not is_unknown_session(error):
                return
            # Whoever asked since then is being told the same, which is better news than a lost connection.
            self._lost = True
            if self._asked:
                await asyncio.wait(set(self._asked), timeout=LAST_ANSWERS_SECONDS)
            raise


@asynccontextmanager
async def _watched(read: Any) -> AsyncIterator[tuple[Any, asyncio.Event]]:
    """The same messages, and an event that tells that no more will come."""
    ended = asyncio.Event()
    sender, receiver = anyio.create_memory_object_stream[Any](0)

    async def pass_on() -> None:
        async with sender, read:
            try:
                async for message in read:
                    await sender.send(message)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # nobody listens any more
            ended.set()

    async with receiver, anyio.create_task_group() as group:
        group.start_soon(pass_on)
        yield receiver, ended
        group.cancel_scope.cancel()


async def _any_of(*events: asyncio.Event) -> bool:
    """Whether one of them happens within the time between two pings."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        done, _ = await asyncio.wait(waiting, timeout=PING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        for waiter in waiting:
            waiter.cancel()
