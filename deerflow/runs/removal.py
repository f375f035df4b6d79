"""Remove a thread, or one run of it, with everything that belongs to it."""

from __future__ import annotations

import asyncio
import logging
import shutil

from langgraph.checkpoint.base import CheckpointTuple

from deerflow.config.home import thread_folder
from deerflow.runs.parts import RunParts
from deerflow.runs.record import ACTIVE_STATUSES, THREAD_STATUS_AFTER, ThreadStatus

logger = logging.getLogger(__name__)

RUNS_READ = 20


async def remove_thread(thread_id: str, parts: RunParts) -> bool:
    """Remove rows, checkpoints and files of a thread without runs; whether it was there."""
    was_there = await parts.stores.threads.delete(thread_id)
    await remove_leftovers(thread_id, parts)
    return was_there


async def remove_leftovers(thread_id: str, parts: RunParts) -> None:
    """Remove checkpoints and files of a thread whose row is gone."""
    if parts.checkpointer is not None:
        await parts.checkpointer.adelete_thread(thread_id)
    await asyncio.to_thread(_remove_folder, parts, thread_id)


async def remove_run_with_its_traces(
    run_id: str, thread_id: str, before: CheckpointTuple | None, parts: RunParts
) -> bool:
    """Remove a run of this host with what it left in its thread's state; whether it was there.

    `before` is the checkpoint that it went on from. The record goes last: as long as it is there no other
    run of the thread begins.
    """
    if parts.roll_back is not None:
        await parts.roll_back(thread_id, run_id, before)
    status = await _status_of(thread_id, parts)
    return await parts.stores.runs.delete(
        run_id, thread_id=thread_id, host_id=parts.host_id, thread_status=status
    )


async def _status_of(thread_id: str, parts: RunParts) -> ThreadStatus:
    """The status of a thread without runs: what its newest run left it with."""
    for run in await parts.stores.runs.list_by_thread(thread_id, limit=RUNS_READ):
        if run.status not in ACTIVE_STATUSES:
            return THREAD_STATUS_AFTER[run.status]
    return ThreadStatus.IDLE


def _remove_folder(parts: RunParts, thread_id: str) -> None:
    folder = thread_folder(parts.config.home, thread_id)
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        logger.warning("the files of thread %s in %s could not be removed: %s", thread_id, folder, error)
