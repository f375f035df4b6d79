"""Remove a thread with everything that belongs to it."""

from __future__ import annotations

import asyncio
import logging
import shutil

from deerflow.config.home import thread_folder
from deerflow.runs.parts import RunParts

logger = logging.getLogger(__name__)


async def remove_thread(thread_id: str, parts: RunParts) -> bool:
    """Remove rows, checkpoints and files of a thread without runs; whether it was there."""
    was_there = await parts.stores.threads.delete(thread_id)
    if parts.checkpointer is not None:
        await parts.checkpointer.adelete_thread(thread_id)
    await asyncio.to_thread(_remove_folder, parts, thread_id)
    return was_there


def _remove_folder(parts: RunParts, thread_id: str) -> None:
    folder = thread_folder(parts.config.home, thread_id)
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        logger.warning("the files of thread %s in %s could not be removed: %s", thread_id, folder, error)
