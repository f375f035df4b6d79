"""The one way in which the host awaits its extensions."""

from __future__ import annotations

import asyncio

from deerflow.extensions.dispatch import GRACE_SECONDS, Dispatch, Notification
from deerflow.extensions.notification_loop import notification_loop, run_on


async def notify(notification: Notification) -> None:
    """Call the hook of each contributor in order, on the notification loop, and wait within the budget.

    Nothing that a contributor does reaches the caller, but KeyboardInterrupt and SystemExit. Where the
    caller itself is cancelled, the hook that runs is cancelled, the remaining ones are not called, and
    the CancelledError travels on.
    """
    if not notification.contributors:
        return
    here = asyncio.get_running_loop()
    settled = here.create_future()

    def on_settled(_: Dispatch) -> None:
        run_on(here, lambda: None if settled.done() else settled.set_result(None))

    dispatch = Dispatch(notification, on_settled, asyncio.current_task())
    there = _start(dispatch, notification, here)
    try:
        await _wait(settled, dispatch, there, notification.budget_seconds if there is not here else None)
    except asyncio.CancelledError:
        dispatch.halt()
        run_on(there, dispatch.cancel)
        await asyncio.wait((settled,), timeout=2 * GRACE_SECONDS)
        raise
    if dispatch.fatal is not None:
        raise dispatch.fatal


def _start(
    dispatch: Dispatch, notification: Notification, here: asyncio.AbstractEventLoop
) -> asyncio.AbstractEventLoop:
    """Start on the notification loop, else here; return the loop that it was."""
    registration = notification_loop(notification.snapshot)
    if registration is not None and run_on(registration.loop, dispatch.start):
        return registration.loop
    dispatch.start()
    return here


async def _wait(
    settled: asyncio.Future[None],
    dispatch: Dispatch,
    there: asyncio.AbstractEventLoop,
    budget_seconds: float | None,
) -> None:
    """Wait for the end; where the hooks run on another loop, which may be blocked, within the budget."""
    timeout = None if budget_seconds is None else budget_seconds + 2 * GRACE_SECONDS
    done, _ = await asyncio.wait((settled,), timeout=timeout)
    if not done:
        dispatch.expire()
        run_on(there, dispatch.cancel)
