"""Deleting, copying, thinning out and rolling back checkpoints, for every saver that the host opens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple, PendingWrite
from langgraph.checkpoint.serde.types import INTERRUPT, RESUME

from deerflow.persistence.checkpoint_fence import FencedSaver

Saver = BaseCheckpointSaver[Any]
Writes = Mapping[tuple[str, str], list[Any]]


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


async def roll_back_checkpoints(
    saver: FencedSaver, thread_id: str, run_id: str, before: CheckpointTuple | None = None
) -> None:
    """Remove what a run left on its thread, so that the thread is where it was before the run.

    A run that goes on from a checkpoint also writes to that one: `before` is how the run found it. Without it
    questions that the run answered are open again, though of several in one step the last one is asked.
    """
    await saver.adelete_for_runs([run_id], thread_id=thread_id)
    place: RunnableConfig = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    now = await saver.aget_tuple(place if before is None else before.config)
    if now is None:
        return
    found = _by_channel(now.pending_writes)
    wanted = _unanswered(found) if before is None else _by_channel(before.pending_writes)
    at = now.config["configurable"]
    added = found.keys() - wanted.keys()
    if added:
        await saver.adelete_writes((thread_id, at["checkpoint_ns"], at["checkpoint_id"]), added)
    for (task_id, channel), values in wanted.items():
        # Of all writes only questions and answers are ever replaced by later ones of their task.
        if channel in WRITES_IDX_MAP and found.get((task_id, channel)) != values:
            await saver.aput_writes(now.config, [(channel, value) for value in values], task_id)


def _by_channel(writes: list[PendingWrite] | None) -> Writes:
    """What each task wrote to each channel."""
    found: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for task_id, channel, value in writes or ():
        found[task_id, channel].append(value)
    return found


def _unanswered(writes: Writes) -> Writes:
    """The same without what a run adds that answers the questions among them."""
    asking = {task_id for task_id, channel in writes if channel == INTERRUPT}
    return {
        (task_id, channel): values
        for (task_id, channel), values in writes.items()
        if channel == INTERRUPT or (task_id not in asking and channel != RESUME)
    }


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
