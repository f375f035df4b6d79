"""One notification under way: a walk through the contributors, on one loop, within one budget.

The walk is an asyncio task of its own. Whoever cancels it says so first (`halt`, `expire`), so a
CancelledError that arrives unannounced is the contributor's own. A hook that ignores its cancellation is
abandoned: nobody waits for it, and it is kept alive until it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Any, Final

from deerflow.cancellation import keep_alive
from deerflow.extensions.cancellation import (
    cancel_requests,
    drop_left_over_cancellation,
    running_task,
)
from deerflow.extensions.diagnostics import error_text, logger
from deerflow.extensions.hooks import call_async_hook
from deerflow.extensions.loop_blocks import watched
from deerflow.extensions.outcomes import record_outcome
from deerflow.extensions.snapshot import NOTIFICATION_BUDGET_SECONDS, LoadedExtensions

GRACE_SECONDS: Final = 0.1


@dataclass(frozen=True, eq=False)
class Notification:
    """What is said, and to whom: `hook(*arguments)` of each contributor, in order.

    `subject` completes "failed for ..." in the log, such as `task 7f3c`; all contributors together have
    `budget_seconds`. `snapshot` is the loading that the contributors belong to. `on_first` is called when the
    first of them is about to be, on the loop of the hooks.
    """

    hook: str
    snapshot: LoadedExtensions
    contributors: tuple[tuple[str, Any], ...]
    arguments: tuple[Any, ...]
    subject: str
    budget_seconds: float = NOTIFICATION_BUDGET_SECONDS
    on_first: Callable[[], None] | None = None

    def __str__(self) -> str:
        return f"{self.hook} for {self.subject}"


class Dispatch:
    """Notify the contributors of one notification once, and call `on_settled` when that is over.

    `start` and `cancel` belong to the loop that the hooks run on; `halt` and `expire` to any thread.
    `waiting` is the host's task that waits for the outcome, None for fire-and-forget. `fatal` is a
    KeyboardInterrupt or SystemExit that the waiting side has to raise.
    """

    def __init__(
        self,
        notification: Notification,
        on_settled: Callable[[Dispatch], None],
        waiting: asyncio.Task[Any] | None = None,
    ) -> None:
        self.fatal: BaseException | None = None
        self._notification = notification
        self._on_settled = on_settled
        self._waiting = waiting
        self._cancel_requests_before = cancel_requests(waiting)
        self._lock = Lock()
        self._over = False
        self._settled = False
        self._current = -1
        self._hook_started = self._deadline = monotonic()
        self._walk_task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin on the running loop; nothing happens where the notification was called off already."""
        if self._over:
            self._settle()
            return
        loop = asyncio.get_running_loop()
        self._deadline = monotonic() + self._notification.budget_seconds
        self._timer = loop.call_later(self._notification.budget_seconds, self._run_out)
        self._walk_task = loop.create_task(self._walk(), name=f"extensions:{self._notification.hook}")
        self._walk_task.add_done_callback(self._walk_ended)

    def halt(self) -> None:
        """Call no further contributor."""
        with self._lock:
            self._over = True

    def cancel(self) -> None:
        """End the hook that runs; settles at once, or after a moment's grace where it does not listen."""
        self.halt()
        walk = self._walk_task
        if walk is None or walk.done():
            self._settle()
            return
        self._clear_timer()
        self._timer = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._abandon)
        walk.cancel()

    def expire(self) -> None:
        """Log that the budget is spent, for the contributor whose turn it is and for all after it."""
        with self._lock:
            if self._over:
                return
            self._over = True
            current = self._current
        for index, (source, _) in enumerate(self._notification.contributors):
            if index == current:
                self._log_spent(source, "timed out")
                seconds = monotonic() - self._hook_started
                record_outcome(source, self._notification.hook, seconds, failed=True)
            elif index > current:
                self._log_spent(source, "skipped")

    async def _walk(self) -> None:
        for index, (source, contributor) in enumerate(self._notification.contributors):
            if not self._advance(index):
                return
            await self._call(source, contributor)
            if not self._over and await drop_left_over_cancellation():
                self._contain(source, asyncio.CancelledError())
            if monotonic() >= self._deadline:  # a hook that blocked the loop held up the timer as well
                self.expire()

    def _advance(self, index: int) -> bool:
        with self._lock:
            self._over = self._over or self._host_is_cancelled()
            if self._over:
                return False
            self._current = index
            self._hook_started = monotonic()
            if index == 0 and self._notification.on_first is not None:
                self._notification.on_first()
            return True

    async def _call(self, source: str, contributor: Any) -> None:
        hook, failed = self._notification.hook, True
        try:
            called = call_async_hook(contributor, hook, *self._notification.arguments)
            complaint = await watched(called, source, hook)
            failed = complaint is not None
            if failed:
                logger.error("Extension %s: %s %s", source, hook, complaint)
        except GeneratorExit as error:
            if running_task() is not self._walk_task:
                raise  # the loop throws this walk away; awaiting anything now is an error
            self._contain(source, error)
        except (KeyboardInterrupt, SystemExit) as error:
            if self._waiting is None or self._over:
                raise
            self.fatal = error
            self.halt()
        except BaseException as error:  # noqa: BLE001 - whatever a contributor raises stays with it
            self._contain(source, error)
        if not self._over:
            seconds = monotonic() - self._hook_started
            record_outcome(source, hook, seconds, failed=failed)

    def _contain(self, source: str, error: BaseException) -> None:
        hook, subject = self._notification.hook, self._notification.subject
        cancelled = isinstance(error, asyncio.CancelledError)
        if cancelled and self._host_is_cancelled():
            self.halt()
        if self._over:
            if not cancelled:
                text = error_text(error)
                logger.debug("Extension %s: %s ended late for %s: %s", source, hook, subject, text)
        elif cancelled:
            logger.error("Extension %s: %s raised CancelledError for %s", source, hook, subject)
        else:
            text = error_text(error)
            logger.error("Extension %s: %s failed for %s: %s", source, hook, subject, text, exc_info=error)

    def _host_is_cancelled(self) -> bool:
        return cancel_requests(self._waiting) > self._cancel_requests_before

    def _run_out(self) -> None:
        self.expire()
        self.cancel()

    def _abandon(self) -> None:
        walk = self._walk_task
        if walk is not None and not walk.done():
            source = self._notification.contributors[max(self._current, 0)][0]
            logger.warning(
                "Extension %s: %s ignored its cancellation for %s and was abandoned",
                *(source, self._notification.hook, self._notification.subject),
            )
            keep_alive(walk)
        self._settle()

    def _walk_ended(self, walk: asyncio.Task[None]) -> None:
        if not walk.cancelled():
            walk.exception()  # fetched, so that asyncio does not report it a second time
        self._settle()

    def _settle(self) -> None:
        self._clear_timer()
        if not self._settled:
            self._settled = True
            self._on_settled(self)

    def _clear_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _log_spent(self, source: str, what: str) -> None:
        notification = self._notification
        logger.warning(
            "Extension %s: %s %s for %s; the %.1fs notification budget was spent",
            *(source, notification.hook, what, notification.subject, notification.budget_seconds),
        )
