"""Wrap hooks that know only one side, run on the other.

The hook runs in a thread of its own. Whoever called it stays where it is and serves the hook's calls of its
handler, in the hook's context variables, until the hook ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextvars import Context, copy_context
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final

from deerflow.extensions.hook_threads import HOOK_THREADS
from deerflow.loop_thread import side_loop

SyncHandler = Callable[[Any], Any]
AsyncHandler = Callable[[Any], Awaitable[Any]]


@dataclass(frozen=True)
class _HandlerCall:
    """The hook stands at its handler, in `context`, until `reply` is settled."""

    request: Any
    context: Context
    reply: Future[Any]


@dataclass(frozen=True)
class _End:
    """The hook has ended, with a value or an error."""

    value: Any = None
    error: BaseException | None = None

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


_ENDS: Final = (GeneratorExit, KeyboardInterrupt, SystemExit)

_Post = Callable[["_HandlerCall | _End"], object]


async def run_sync_hook(hook: Callable[[Any, SyncHandler], Any], request: Any, handler: AsyncHandler) -> Any:
    """Return what a synchronous wrap hook returns; its handler calls run on this event loop."""
    loop = asyncio.get_running_loop()
    inbox: asyncio.Queue[_HandlerCall | _End] = asyncio.Queue()
    gone = False

    def deliver(item: _HandlerCall | _End) -> None:
        if gone and isinstance(item, _HandlerCall):
            item.reply.set_exception(asyncio.CancelledError())
        else:
            inbox.put_nowait(item)

    def post(item: _HandlerCall | _End) -> None:
        loop.call_soon_threadsafe(deliver, item)

    def call_handler(changed: Any) -> Any:
        reply: Future[Any] = Future()
        post(_HandlerCall(changed, copy_context(), reply))
        return reply.result()

    _start(lambda: hook(request, call_handler), post)
    try:
        while True:
            item = await inbox.get()
            if isinstance(item, _End):
                return item.outcome()
            await _serve(item, handler)
    finally:
        gone = True


async def _serve(call: _HandlerCall, handler: AsyncHandler) -> None:
    """Answer one handler call. A cancellation reaches the handler, then the hook, then the caller."""
    loop = asyncio.get_running_loop()
    asked = _cancel_requests()
    asyncio_task = loop.create_task(_awaited(handler, call.request), context=call.context)
    try:
        call.reply.set_result(await asyncio_task)
    except BaseException as error:
        call.reply.set_exception(error)
        cancelled = isinstance(error, asyncio.CancelledError)
        if (cancelled and _cancel_requests() > asked) or isinstance(error, _ENDS):
            raise


def _cancel_requests() -> int:
    current = asyncio.current_task()
    return 0 if current is None else current.cancelling()


async def _awaited(handler: AsyncHandler, request: Any) -> Any:
    return await handler(request)


def run_async_hook(hook: Callable[[Any, AsyncHandler], Any], request: Any, handler: SyncHandler) -> Any:
    """Return what an async wrap hook returns, run on the side loop; its handler calls run right here.

    Not on a loop of its own: what a client of a model keeps open would belong to a loop that is gone.
    """
    inbox: SimpleQueue[_HandlerCall | _End] = SimpleQueue()

    async def call_handler(changed: Any) -> Any:
        reply: Future[Any] = Future()
        inbox.put(_HandlerCall(changed, copy_context(), reply))
        return await asyncio.wrap_future(reply)

    async def run() -> Any:
        return await hook(request, call_handler)

    _start(lambda: side_loop().call(run()), inbox.put)
    while True:
        item = inbox.get()
        if isinstance(item, _End):
            return item.outcome()
        try:
            value = item.context.run(handler, item.request)
        except BaseException as error:  # noqa: BLE001 - handed to the hook, which decides as on its own side
            item.reply.set_exception(error)
        else:
            item.reply.set_result(value)


def _start(work: Callable[[], Any], post: _Post) -> None:
    """Run `work` in a thread, with the context variables of the caller, and post how it ended."""
    context = copy_context()

    def run() -> None:
        try:
            end = _End(context.run(work))
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits for the hook
            end = _End(error=error)
        try:
            post(end)
        except RuntimeError:
            return  # the waiting event loop was closed: nobody is there to hear it

    HOOK_THREADS.start(run)
