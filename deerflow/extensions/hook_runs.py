"""One run of one contributed hook, apart from the host: in an asyncio task, or in a thread.

The host starts a run and lets it settle: until the hook stands at its handler, has ended, or has no time
left. It waits for a hook in no other way, so it can always go on without it. An error that the hook raised is
kept in the run, whatever its kind; a cancellation that `settle` raises is therefore always the host's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from threading import Condition, Event
from time import monotonic
from typing import Any, Final

from deerflow.cancellation import keep_alive
from deerflow.errors import DeerFlowError
from deerflow.extensions.hook_threads import Lane
from deerflow.extensions.loop_blocks import watched

CANCEL_GRACE_SECONDS: Final = 0.5
"""How long the host, itself cancelled, waits for a hook to clean up; hooks that stand around it add up."""


class HandlerRefusedError(DeerFlowError, RuntimeError):
    """Raised inside a hook that calls its handler when it may not."""


class HookStuckError(DeerFlowError, RuntimeError):
    """No thread is left for a hook, as all of them hang in earlier calls."""


class HookRun:
    """What the host sees of a run. `at_handler` stays true once the hook has called its handler.

    The host notes in `handler_seconds` what that took, in `failed` its judgement, and in `told` that it has
    told how the run ended.
    """

    def __init__(self) -> None:
        self.began = monotonic()
        self.handler_seconds = 0.0
        self.failed = False
        self.told = False
        self.at_handler = False
        self.ended = False
        self.value: Any = None
        self.error: BaseException | None = None
        self.called_again = False
        self.request: Any = None
        self.context: Context = copy_context()
        self._given_up = False
        self._answered = False
        self._result: Any = None
        self._failure: BaseException | None = None
        self._show: Callable[[Any], Any] = _itself
        self.shown: Any = None

    def has_news(self) -> bool:
        """Whether the hook has ended, or stands at its handler and waits for the answer."""
        return self.ended or (self.at_handler and not self._answered)

    def answer(self, result: Any, failure: BaseException | None, show: Callable[[Any], Any]) -> None:
        """Let the hook go on with the handler's outcome; it sees `show(result)`."""
        self._result, self._failure, self._show = result, failure, show
        self._answered = True
        self._release()

    def _enter(self, request: Any) -> None:
        if self._given_up:
            raise HandlerRefusedError("this hook was given up; the host has gone on without it")
        if self.at_handler:
            self.called_again = True
            raise HandlerRefusedError("a hook may call its handler once; the second call was refused")
        self.request = request
        self.context = copy_context()
        self.at_handler = True

    def _outcome(self) -> Any:
        if not self._answered:
            raise HandlerRefusedError("this hook was given up; the host has gone on without it")
        if self._failure is not None:
            raise self._failure
        self.shown = self._show(self._result)
        return self.shown

    def give_up(self) -> None:
        """Go on without the hook; from now on its handler is refused."""
        raise NotImplementedError

    def _release(self) -> None:
        raise NotImplementedError


def _itself(value: Any) -> Any:
    return value


class _AsyncSettling(HookRun):
    """A run whose host is an asyncio task."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._waker: asyncio.Future[None] | None = None
        self._time_is_over = False

    async def settle(self, limit_seconds: float) -> None:
        """Wait until there is news, at most `limit_seconds`."""
        if self.has_news():
            return
        self._time_is_over = False
        timer = self._loop.call_later(limit_seconds, self._end_of_time)
        try:
            while not self._time_is_over:
                self._waker = self._loop.create_future()
                if self.has_news():
                    return
                await self._waker
        except asyncio.CancelledError:
            await self._wind_down()
            raise
        finally:
            self._waker = None
            timer.cancel()

    async def _wind_down(self) -> None:
        """Take back the run as the host itself is cancelled."""
        raise NotImplementedError

    def _end_of_time(self) -> None:
        self._time_is_over = True
        self._wake()

    def _wake(self) -> None:
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)


class TaskRun(_AsyncSettling):
    """An async hook in an asyncio task of its own; the log names it where it holds up the loop."""

    def __init__(self, source: str, hook: str) -> None:
        super().__init__()
        self._source = source
        self._hook = hook
        self._reply: asyncio.Future[None] | None = None

    def start(self, call: Callable[[], Awaitable[Any]]) -> None:
        """Begin to run `call`."""
        self._asyncio_task = self._loop.create_task(self._run(call))

    async def handler(self, request: Any) -> Any:
        """The handler that the hook is given."""
        if asyncio.get_running_loop() is not self._loop:
            raise HandlerRefusedError("a hook must call its handler on the event loop that it was called on")
        self._enter(request)
        self._reply = self._loop.create_future()
        self._wake()
        await self._reply
        return self._outcome()

    def give_up(self) -> None:
        if self._given_up:
            return
        self._given_up = True
        if not self._asyncio_task.done():
            keep_alive(self._asyncio_task)
            self._asyncio_task.cancel()
        self._release()

    async def _wind_down(self) -> None:
        self.give_up()
        await asyncio.wait({self._asyncio_task}, timeout=CANCEL_GRACE_SECONDS)

    async def _run(self, call: Callable[[], Awaitable[Any]]) -> None:
        try:
            self.value = await watched(_awaited(call), self._source, self._hook)
        except BaseException as error:  # noqa: BLE001 - the host judges it, in its own task
            self.error = error
        self.ended = True
        self._wake()

    def _release(self) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(None)


async def _awaited(call: Callable[[], Awaitable[Any]]) -> Any:
    return await call()


class _ThreadRun(HookRun):
    """A synchronous hook in a thread."""

    def __init__(self, lane: Lane) -> None:
        super().__init__()
        self._lane = lane
        self._news = Condition()
        self._reply = Event()
        self._started = False
        self._stuck = False

    def start(self, call: Callable[[], Any]) -> None:
        """Begin to run `call` as soon as a thread is free."""
        context = copy_context()
        try:
            if self._lane.blocked:
                raise HookStuckError("all of its threads hang in earlier calls")
            self._lane.submit(lambda: self._run(context, call))
        except RuntimeError as error:
            self.error = error
            self.ended = True

    def handler(self, request: Any) -> Any:
        """The handler that the hook is given."""
        with self._news:
            self._enter(request)
            self._notify()
        self._lane.park()
        self._reply.wait()
        self._lane.unpark()
        return self._outcome()

    def give_up(self) -> None:
        with self._news:
            if self._given_up:
                return
            self._given_up = True
            self._stuck = self._started and not self.ended
        if self._stuck:
            self._lane.give_up()
        self._release()

    def _run(self, context: Context, call: Callable[[], Any]) -> None:
        with self._news:
            if self._given_up:
                return
            self._started = True
        try:
            self.value = context.run(call)
        except BaseException as error:  # noqa: BLE001 - the host judges it, in its own thread
            self.error = error
        with self._news:
            self.ended = True
            self._notify()
        if self._stuck:
            self._lane.recover()

    def _release(self) -> None:
        self._reply.set()

    def _notify(self) -> None:
        """Tell the host that there is news; called with `_news` held."""
        raise NotImplementedError


class AsyncThreadRun(_ThreadRun, _AsyncSettling):
    """A synchronous hook whose host is an asyncio task."""

    async def _wind_down(self) -> None:
        self.give_up()

    def _notify(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            return  # the loop was closed: the host is gone


class SyncThreadRun(_ThreadRun):
    """A synchronous hook whose host is a thread."""

    def settle(self, limit_seconds: float) -> None:
        """Wait until there is news, at most `limit_seconds`."""
        with self._news:
            self._news.wait_for(self.has_news, limit_seconds)

    def _notify(self) -> None:
        self._news.notify_all()
