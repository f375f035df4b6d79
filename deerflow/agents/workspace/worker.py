"""Run file operations away from the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from deerflow.agents.workspace.allowance import ALLOWED_SECONDS, Allowance

T = TypeVar("T")

# Threads of their own: a long search must not take those that the loop resolves host names with.
_WORKERS = ThreadPoolExecutor(max_workers=8, thread_name_prefix="workspace")
_SETTLE_SECONDS = 2.0


async def in_worker(work: Callable[[Allowance], T], *, seconds: float = ALLOWED_SECONDS) -> T:
    """Return what `work` returns, run in a worker thread with an allowance of `seconds` from its start.

    When the caller is cancelled, the allowance is given up and the work is waited for (bounded), so nothing
    is written once this has returned.
    """
    allowance = Allowance(seconds)

    def run() -> T:
        allowance.begin()
        return work(allowance)

    job = _WORKERS.submit(run)
    result = asyncio.wrap_future(job)
    try:
        return await asyncio.shield(result)
    except asyncio.CancelledError:
        allowance.abandon()
        if not job.cancel():
            result.add_done_callback(_take_exception)
            await asyncio.wait({result}, timeout=_SETTLE_SECONDS)
        raise


def _take_exception(result: asyncio.Future[Any]) -> None:
    if not result.cancelled():
        result.exception()  # else asyncio reports it as never retrieved
