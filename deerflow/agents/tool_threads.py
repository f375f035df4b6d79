"""Synchronous tools run in threads of their own, which nothing waits for when the host ends.

The loop's own threads are few, and whoever closes the loop waits for them: a tool that hangs would take them
from everybody, and then keep the process alive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Final, TypeVar

from deerflow.errors import DeerFlowError
from deerflow.extensions.hook_threads import Lane

T = TypeVar("T")

MOST_AT_ONCE: Final = 256
_LANE: Final = Lane(MOST_AT_ONCE)


class ToolExitError(DeerFlowError, RuntimeError):
    """A tool raised what would have ended more than its call: the process, or the event loop."""


async def in_tool_thread(function: Callable[[], T]) -> T:
    """What `function` returns, called in a thread with the caller's context variables.

    When the caller is cancelled nobody waits for it any more; it cannot be stopped.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()
    context = copy_context()

    def settle(set_outcome: Callable[[Any], None], value: Any) -> None:
        if not outcome.done():
            set_outcome(value)

    def work() -> None:
        try:
            result = context.run(function)
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the tool
            _post(loop, settle, outcome.set_exception, _carried(error))
        else:
            _post(loop, settle, outcome.set_result, result)

    _LANE.submit(work)
    return await outcome


def _post(loop: asyncio.AbstractEventLoop, *call: Any) -> None:
    try:
        loop.call_soon_threadsafe(*call)
    except RuntimeError:
        return  # the loop is closed: nobody waits


def contained(error: BaseException) -> BaseException:
    """The error in a form that ends nothing but the tool call; what steers a task or a person stays."""
    if isinstance(error, SystemExit):
        return ToolExitError(f"it tried to end the process ({error.code})")
    if isinstance(error, Exception | asyncio.CancelledError | GeneratorExit | KeyboardInterrupt):
        return error
    return ToolExitError(f"it raised {type(error).__name__}: {error}")


def _carried(error: BaseException) -> BaseException:
    """The error in a form that a future takes; nobody interrupts a thread from the keyboard."""
    if isinstance(error, StopIteration):
        return RuntimeError(f"it raised StopIteration({error.value!r})")
    if isinstance(error, KeyboardInterrupt | GeneratorExit):
        return ToolExitError(f"it raised {type(error).__name__}")
    return contained(error)
