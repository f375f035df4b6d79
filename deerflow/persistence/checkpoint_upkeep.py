"""Deleting, copying and thinning out a thread's checkpoints, for every saver that the host opens."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

Saver = BaseCheckpointSaver[Any]


async def delete_checkpoints(saver: Saver, thread_id: str) -> None:
    """Remove every checkpoint of a thread."""
    await saver.adelete_thread(thread_id)


async def copy_checkpoints(saver: Saver, source_id: str, target_id: str) -> int:
    """Copy a thread's checkpoints, with what their steps wrote, to another thread; return how many.

    They keep their ids and order. No run of either thread may be active meanwhile.
    """
    newest_first = [item async for item in saver.alist({"configurable": {"thread_id": source_id}})]
    for item in reversed(newest_first):
        await _put(saver, item, target_id, parent_id=_parent_id(item))
    return len(newest_first)


async def prune_checkpoints(saver: Saver, thread_id: str) -> None:
    """Keep a thread's newest checkpoint (and that of each of its subgraphs) and remove all older ones.

    No run of the thread may be active meanwhile.
    """
    if type(saver).aprune is not BaseCheckpointSaver.aprune:
        await saver.aprune([thread_id])
        return
    newest: dict[str, CheckpointTuple] = {}
    async for item in saver.alist({"configurable": {"thread_id": thread_id}}):
        newest.setdefault(item.config["configurable"]["checkpoint_ns"], item)
    # Only the saver in memory comes here; what it does, it does without letting others in between.
    await saver.adelete_thread(thread_id)
    for item in newest.values():
        await _put(saver, item, thread_id, parent_id=None)


def _parent_id(item: CheckpointTuple) -> str | None:
    return None if item.parent_config is None else item.parent_config["configurable"]["checkpoint_id"]


async def _put(saver: Saver, item: CheckpointTuple, thread_id: str, *, parent_id: str | None) -> None:
    place: dict[str, Any] = {
        "thread_id": thread_id,
        "checkpoint_ns": item.config["configurable"]["checkpoint_ns"],
    }
    parent = {} if parent_id is None else {"checkpoint_id": parent_id}
    versions = item.checkpoint["channel_versions"]
    put = await saver.aput({"configurable": {**place, **parent}}, item.checkpoint, item.metadata, versions)
    writes: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    for task_id, channel, value in item.pending_writes or ():
        writes[task_id].append((channel, value))
    for task_id, pairs in writes.items():
        await saver.aput_writes(put, pairs, task_id)
