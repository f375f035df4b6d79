"""Calling one hook of an extension, whatever it turns out to be."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from deerflow.extensions.diagnostics import type_name


async def call_async_hook(contribution: Any, hook: str, *arguments: Any) -> str | None:
    """Call and await a hook; return what is wrong with its result, None where nothing is.

    A hook that is missing counts as the contract's default, which does nothing: the extension may have been
    written for an older contract. Whatever the hook raises travels on.
    """
    method = getattr(contribution, hook, None)
    if method is None:
        return None
    returned = method(*arguments)
    if inspect.isawaitable(returned):
        await returned
        return None
    return f"returned {type_name(returned)}, expected an awaitable; define it with async def"


def discard_unfinished(returned: Any) -> str | None:
    """Name what a function that has to be plain returned instead of finishing, and see that it never runs.

    None where it did finish.
    """
    if inspect.iscoroutine(returned):
        returned.close()
        return "a coroutine"
    if inspect.isgenerator(returned):
        returned.close()
        return "a generator"
    if inspect.isasyncgen(returned):
        return "an asynchronous generator"
    if isinstance(returned, asyncio.Future):
        returned.cancel()
    return f"an awaitable {type_name(returned)}" if inspect.isawaitable(returned) else None
