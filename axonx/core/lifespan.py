"""One run of an Application from start to close, in a task of its own.

Start and close share the task, so that a component may open in `_start` what only the same task may
close (task groups, cancel scopes, client sessions), and no caller's cancellation interrupts a close.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum

from axonx.components.job.call import Call, StopReason, stop_calls
from axonx.core.app_context import AppContext
from axonx.core.current import Work, current_chain, current_work
from axonx.core.graph import Node, Phase
from axonx.core.hook_watch import HookWatch
from axonx.errors import HookCancelledError


class State(Enum):
    STARTING = "starting"
    RUNNING = "running"
    CLOSING = "closing"
    ENDED = "ended"


class Lifespan:
    """Starts nodes in order, waits for the wish to close, and closes in reverse what was started."""

    def __init__(self, context: AppContext, order: Sequence[Node]) -> None:
        self.app_context: AppContext | None = context
        self.parent: Work | None = None
        self.state = State.STARTING
        self.loop = asyncio.get_running_loop()
        self._context = context
        self._order = order
        self._opened: list[Node] = []
        self._spared: set[Call] = set()
        self._started: asyncio.Future[None] = self.loop.create_future()
        self._close_wish: asyncio.Future[None] = self.loop.create_future()
        self._waiters = 0
        self._start_error: BaseException | None = None
        self._close_errors: list[BaseException] = []
        self.task = self.loop.create_task(self._run(), name=f"axonx-application:{context.config.app_name}")
        self._watch = HookWatch(context, self.task)

    async def start(self) -> None:
        """Wait until everything is up; a cancelled caller waits for the rollback and leaves nothing open."""
        try:
            await asyncio.shield(self._started)
        except asyncio.CancelledError:
            self.task.cancel()
            await asyncio.wait({self.task})
            raise
        if self._start_error is not None:
            error, self._start_error = self._start_error, None
            raise error

    def ask_to_close(self) -> None:
        """Take no more calls and begin to close; work that asks from inside gets time to end by itself."""
        self._context.dispatcher.accepting = False
        self._spared.update(work for work in current_chain(self._context) if isinstance(work, Call))
        if self.state is State.RUNNING:
            self.state = State.CLOSING
        if not self._close_wish.done():
            self._close_wish.set_result(None)

    async def ended(self) -> None:
        """Wait for the end; cancelling the wait stops nothing."""
        self._waiters += 1
        try:
            await asyncio.wait({self.task})
        finally:
            self._waiters -= 1

    def take_close_errors(self) -> list[BaseException]:
        """What failed in closing, to the first who asks."""
        errors, self._close_errors = self._close_errors, []
        return errors

    async def settled(self) -> None:
        """Wait until the start or the close that is going on is over."""
        await asyncio.wait({self._started if self.state is State.STARTING else self.task})

    async def _run(self) -> None:
        current_work.set(self)
        try:
            await self._start_all()
        except BaseException as error:  # noqa: BLE001 - handed to the caller of start()
            await self._roll_back(error)
        else:
            self.state = State.CLOSING if self._close_wish.done() else State.RUNNING
            self._started.set_result(None)
            await self._run_until_asked()
        finally:
            await self._close_logs()
            self.state = State.ENDED
            if not self._started.done():
                self._started.set_result(None)

    async def _start_all(self) -> None:
        # The thread costs a tenth of a millisecond per life; a slow disk would cost the loop far more.
        await _finish_in_thread(self._open_files)
        with self._watch.starting():
            for node in self._order:
                if node.phase >= Phase.SCHEDULER:
                    self._accept_calls()
                self._watch.node = node
                await node.component.start()
                self._opened.append(node)
                if self.task.cancelling():
                    raise asyncio.CancelledError  # the hook swallowed what was meant for the whole start
        self._accept_calls()

    def _open_files(self) -> None:
        self._context.workspace_path.mkdir(parents=True, exist_ok=True)
        self._context.logs.open()

    async def _close_logs(self) -> None:
        if self._context.logs.is_open:
            try:
                await _finish_in_thread(self._context.logs.close)
            except asyncio.CancelledError:
                self._forget_cancellation()

    def _accept_calls(self) -> None:
        self._context.dispatcher.accepting = not self._close_wish.done()

    async def _run_until_asked(self) -> None:
        try:
            await self._close_wish
        except asyncio.CancelledError:
            self._forget_cancellation()
            self._context.dispatcher.accepting = False
        self.state = State.CLOSING
        self._close_errors = await self._close_all()
        if self._close_errors and not self._waiters:
            self._report(self._close_errors)

    async def _roll_back(self, error: BaseException) -> None:
        self._context.dispatcher.accepting = False
        cancelled = self._forget_cancellation()
        errors = await self._close_all()
        if cancelled:
            self._start_error = HookCancelledError("Application start was cancelled")
            if errors:
                self._report(errors)
        elif errors:
            message = "Application startup failed and rollback was incomplete"
            self._start_error = BaseExceptionGroup(message, [error, *errors])
        else:
            self._start_error = error

    async def _close_all(self) -> list[BaseException]:
        """Attempt everything; a cancellation from outside ends one attempt, never the rest."""
        errors: list[BaseException] = []
        try:
            await self._stop_calls()
        except asyncio.CancelledError:
            self._forget_cancellation()
        with self._watch.closing():
            while self._opened:
                node = self._opened.pop()
                self._watch.node = node
                try:
                    await node.component.close()
                except BaseException as error:  # noqa: BLE001 - every resource is attempted
                    errors.append(self._close_error(node, error))
                if self.task.cancelling():
                    self._forget_cancellation()
        try:
            errors += await self._context.dispatcher.remote.close()
        except asyncio.CancelledError:
            self._forget_cancellation()
        return errors

    async def _stop_calls(self) -> None:
        calls = [call for job in self._context.jobs.values() for call in job.running_calls]
        if calls:
            limit = self._context.config.job_close_timeout_seconds
            await stop_calls(calls, StopReason.APPLICATION_CLOSED, limit, self._spared)

    def _close_error(self, node: Node, error: BaseException) -> BaseException:
        node.component.mark_closed()
        if self._forget_cancellation() and self._watch.overran(node):
            limit = self._context.config.component_close_timeout_seconds
            return TimeoutError(f"{node}: _close took longer than {limit:g} s and was cancelled")
        return error

    def _forget_cancellation(self) -> bool:
        """Whether this task was cancelled; what follows runs as if it had not been."""
        cancelled = self.task.cancelling() > 0
        while self.task.cancelling():
            self.task.uncancel()
        return cancelled

    def _report(self, errors: list[BaseException]) -> None:
        group = BaseExceptionGroup("Application cleanup failed", errors)
        self._context.logger.error("Application cleanup failed", exc_info=group)


async def _finish_in_thread(function: Callable[[], None]) -> None:
    """Run blocking work in a thread; a cancellation waits for its end, since a thread cannot be stopped."""
    work = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        work.exception()
        raise
