"""Calling the steps of a Task, one after the other, and only synchronous ones."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any


@contextmanager
def opened_steps(steps: Iterable[Any]) -> Iterator[Iterator[Any]]:
    """The steps as an iterator; a generator is closed at the end, so its `finally` runs."""
    if inspect.isasyncgen(steps) or inspect.iscoroutine(steps):
        raise TypeError("build_task_steps() must be a synchronous function or generator")
    iterator = iter(steps)
    try:
        yield iterator
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            close()


def step_name(step: Any) -> str:
    """What a step is called: the function's name, or the class's for other callables."""
    if isinstance(step, partial):
        return step_name(step.func)
    return str(getattr(step, "__name__", type(step).__name__))


def call_step(step: Any, name: str) -> None:
    """Call one step. Raises TypeError for one that is not callable or not synchronous."""
    if not callable(step):
        raise TypeError(f"Task step must be callable, got {type(step).__name__}")
    if inspect.iscoroutinefunction(step) or inspect.isasyncgenfunction(step):
        raise TypeError(f"Task step {name!r} must be synchronous")
    result = step()
    if inspect.isawaitable(result) or inspect.isasyncgen(result):
        close = getattr(result, "close", None)
        if close is not None:  # a coroutine that nobody awaits would warn
            close()
        raise TypeError(f"Task step {name!r} returned an awaitable")
