"""The event loops on which extensions are notified, and the fire-and-forget notifications waiting there.

Extensions open their clients and pools on the loop that serves; only there may their hooks run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Lock
from typing import Final

from deerflow.extensions.diagnostics import logger
from deerflow.extensions.dispatch import Dispatch, Notification
from deerflow.extensions.snapshot import LoadedExtensions

MAX_PENDING_OBSERVATIONS: Final = 1000

_SHUTTING_DOWN: Final = (
    "Observations of extensions are no longer accepted during shutdown; %s and later ones are dropped"
)
_FULL: Final = (
    f"{MAX_PENDING_OBSERVATIONS} extension observations are pending; "
    "%s and others are dropped until there is room"
)


class NotificationLoop:
    """One registration of a loop, from `register_notification_loop` to `release`.

    Whether it accepts observations, and what is pending, belongs to it: the next life starts afresh.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, snapshot: LoadedExtensions | None) -> None:
        self.loop: Final = loop
        self.snapshot: Final = snapshot
        self._lock = Lock()
        self._accepting = True
        self._said: set[str] = set()
        self._pending: set[Dispatch] = set()
        self._idle: asyncio.Future[None] | None = None

    @property
    def pending(self) -> int:
        """How many fire-and-forget notifications have not ended."""
        return len(self._pending)

    def observe_later(self, notification: Notification) -> None:
        """Notify soon, without anyone waiting, within the notification's budget. From any thread.

        Dropped, with one line in the log, after `stop_accepting` and while too many are pending.
        """
        with self._lock:
            dropped = self._reason_to_drop()
            if dropped is None:
                dispatch = Dispatch(notification, self._ended)
                self._pending.add(dispatch)
            else:
                first, self._said = dropped not in self._said, self._said | {dropped}
        if dropped is None:
            if not run_on(self.loop, dispatch.start):
                self._ended(dispatch)
        elif first:
            logger.warning(dropped, notification)

    def stop_accepting(self) -> None:
        """Drop every observation that comes from now on; what is pending goes on."""
        with self._lock:
            self._accepting = False

    async def drain(self, timeout_seconds: float) -> int:
        """Wait on this loop until nothing is pending; return how many were cancelled at the timeout."""
        if self._pending:
            if self._idle is None or self._idle.done():
                self._idle = self.loop.create_future()
            await asyncio.wait((self._idle,), timeout=timeout_seconds)
        given_up = tuple(self._pending)
        for dispatch in given_up:
            dispatch.cancel()
        if given_up:
            logger.warning("%d extension observation(s) had not ended and were cancelled", len(given_up))
        return len(given_up)

    def release(self) -> None:
        """Stop being a notification loop. Calling it again does nothing."""
        self.stop_accepting()
        _registrations.remove(self)

    def _reason_to_drop(self) -> str | None:
        if not self._accepting:
            return _SHUTTING_DOWN
        if len(self._pending) >= MAX_PENDING_OBSERVATIONS:
            return _FULL
        return None

    def _ended(self, dispatch: Dispatch) -> None:
        with self._lock:
            self._pending.discard(dispatch)
        self._wake_if_idle()

    def _wake_if_idle(self) -> None:
        if self._idle is not None and not self._idle.done() and not self._pending:
            self._idle.set_result(None)


class _Registrations:
    """The registered loops of this process, oldest first."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._stack: tuple[NotificationLoop, ...] = ()
        self._missing_loop_said = False

    def add(self, registration: NotificationLoop) -> None:
        with self._lock:
            self._stack = (*self._stack, registration)

    def remove(self, registration: NotificationLoop) -> None:
        with self._lock:
            self._stack = tuple(kept for kept in self._stack if kept is not registration)

    def find(self, snapshot: LoadedExtensions) -> NotificationLoop | None:
        """The newest running loop that was registered for this snapshot, else the newest running one."""
        running = [kept for kept in self._stack if kept.loop.is_running()]
        own = [kept for kept in running if kept.snapshot is snapshot]
        return next(reversed(own or running), None)

    def serves(self, snapshot: LoadedExtensions) -> bool:
        return any(kept.snapshot is snapshot and kept.loop.is_running() for kept in self._stack)

    def say_missing_loop_once(self, notification: Notification) -> None:
        with self._lock:
            first, self._missing_loop_said = not self._missing_loop_said, True
        if first:
            logger.warning(
                "No running loop registered for extension observations; %s and later ones are dropped",
                notification,
            )


_registrations = _Registrations()


def register_notification_loop(
    loop: asyncio.AbstractEventLoop | None = None, *, snapshot: LoadedExtensions | None = None
) -> NotificationLoop:
    """Make `loop`, by default the running one, the loop on which extensions are notified.

    The newest registration counts; one that names a `snapshot` comes first for that snapshot's extensions,
    whose services run there. Release it when the loop is about to end.
    """
    registration = NotificationLoop(loop or asyncio.get_running_loop(), snapshot)
    _registrations.add(registration)
    return registration


def notification_loop(snapshot: LoadedExtensions) -> NotificationLoop | None:
    """Return the registration on whose running loop the snapshot's extensions are notified, if any."""
    return _registrations.find(snapshot)


def is_served(snapshot: LoadedExtensions) -> bool:
    """Whether a running loop was registered for this very set: somebody in this process runs its services."""
    return _registrations.serves(snapshot)


def observe_later(notification: Notification) -> None:
    """Notify soon, without anyone waiting; from any thread. Dropped where no running loop is registered."""
    if not notification.contributors:
        return
    registration = _registrations.find(notification.snapshot)
    if registration is None:
        _registrations.say_missing_loop_once(notification)
    else:
        registration.observe_later(notification)


def run_on(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> bool:
    """Run `callback` on `loop`: now where this is its thread, else soon; False where the loop is closed."""
    if _running_loop() is loop:
        callback()
        return True
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        return False
    return True


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
