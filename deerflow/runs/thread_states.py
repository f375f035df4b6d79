"""The states of threads: read, changed and copied between runs, through the graph that left them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar, cast
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.errors import InvalidUpdateError
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import StateSnapshot, StateUpdate

from deerflow.config.request import RequestOptions, parse_request_options
from deerflow.errors import InvalidRequestError, NotFoundError
from deerflow.runs.parts import RunParts
from deerflow.runs.record import ThreadRecord, ThreadStatus, utc_now
from deerflow.runs.request import cleaned
from deerflow.runs.service import RunService

READS_AT_ONCE: Final = 8

Graph = CompiledStateGraph[Any, Any, Any, Any]
T = TypeVar("T")


class ThreadStates:
    """What the threads of a host hold."""

    def __init__(self, parts: RunParts, runs: RunService) -> None:
        self._parts = parts
        self._runs = runs

    async def read(
        self, thread: ThreadRecord, *, checkpoint_id: str | None = None, subgraphs: bool = False
    ) -> StateSnapshot:
        """The newest state, or the one at a checkpoint; an empty one before the first run."""
        graph = await self._graph_of(thread)
        snapshot = await graph.aget_state(_config(thread.thread_id, checkpoint_id), subgraphs=subgraphs)
        if checkpoint_id is not None and snapshot.created_at is None:
            raise NotFoundError(f"thread {thread.thread_id} has no checkpoint {checkpoint_id}")
        return snapshot

    async def read_many(self, threads: Sequence[ThreadRecord]) -> list[StateSnapshot]:
        """The newest states of several threads, a few at a time."""
        room = asyncio.Semaphore(READS_AT_ONCE)

        async def read(thread: ThreadRecord) -> StateSnapshot:
            async with room:
                return await self.read(thread)

        return await asyncio.gather(*map(read, threads))

    async def history(
        self,
        thread: ThreadRecord,
        *,
        limit: int,
        before: str | None = None,
        checkpoint_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[StateSnapshot]:
        """States of the root, newest first: those `before` a checkpoint, or the one at `checkpoint_id`."""
        graph = await self._graph_of(thread)
        states = graph.aget_state_history(
            _config(thread.thread_id, checkpoint_id),
            limit=limit,
            before=None if before is None else _config(thread.thread_id, before),
            filter=dict(metadata) if metadata else None,
        )
        return [state async for state in states]

    async def update(
        self, thread: ThreadRecord, values: Any, *, as_node: str | None, checkpoint_id: str | None
    ) -> RunnableConfig:
        """Change the state as if a node had; the config of the new checkpoint.

        Raises `ConflictError` while a run is under way, `InvalidRequestError` for what the graph refuses.
        """
        async with self._runs.exclusive(thread.thread_id):
            graph = await self._graph_of(thread)
            config = _config(thread.thread_id, checkpoint_id)
            config = await _accepted(graph.aupdate_state(config, cleaned(values), as_node=as_node))
            await self._note_change(graph, thread.thread_id)
        return config

    async def fill(self, thread: ThreadRecord, supersteps: Sequence[Sequence[StateUpdate]]) -> None:
        """Give a new thread a history, superstep by superstep."""
        graph = await self._graph_of(thread)
        updates = [[update._replace(values=cleaned(update.values)) for update in step] for step in supersteps]
        await _accepted(graph.abulk_update_state(_config(thread.thread_id), updates))
        await self._note_change(graph, thread.thread_id)

    async def copy(self, thread: ThreadRecord) -> ThreadRecord:
        """A new thread with the same metadata, state and history."""
        now = utc_now()
        status = ThreadStatus.IDLE if thread.status is ThreadStatus.BUSY else thread.status
        twin = replace(thread, thread_id=str(uuid4()), created_at=now, updated_at=now, status=status)
        created = await self._parts.stores.threads.create(twin)
        if self._parts.checkpointer is not None:
            await _copy_checkpoints(self._parts.checkpointer, thread.thread_id, twin.thread_id)
        return created

    async def _note_change(self, graph: Graph, thread_id: str) -> None:
        snapshot = await graph.aget_state(_config(thread_id))
        status = ThreadStatus.INTERRUPTED if snapshot.next else ThreadStatus.IDLE
        await self._parts.stores.threads.touch_state(thread_id, status)

    async def _graph_of(self, thread: ThreadRecord) -> Graph:
        # Which nodes a waiting thread can wait at depends on what its last run was asked for.
        options = RequestOptions()
        if thread.status is not ThreadStatus.IDLE:
            options = await self._last_options(thread.thread_id)
        snapshot = self._parts.resolve_snapshot()
        return (await self._parts.assembler.lead(snapshot, options)).graph

    async def _last_options(self, thread_id: str) -> RequestOptions:
        runs = await self._parts.stores.runs.list_by_thread(thread_id, limit=1)
        try:
            return parse_request_options(runs[0].kwargs.get("context"), self._parts.config)
        except (IndexError, InvalidRequestError):  # no run, or one under another configuration
            return RequestOptions()


def _config(thread_id: str, checkpoint_id: str | None = None) -> RunnableConfig:
    configurable = {"thread_id": thread_id, "checkpoint_ns": ""}
    if checkpoint_id is not None:
        configurable["checkpoint_id"] = checkpoint_id
    return {"configurable": configurable}


async def _accepted(update: Any) -> RunnableConfig:
    try:
        return cast(RunnableConfig, await update)
    except (InvalidUpdateError, ValueError, TypeError, NotImplementedError) as error:
        # Reducers fail in their own ways over what a caller sent.
        raise InvalidRequestError(f"the state cannot be changed so: {error}") from error


async def _copy_checkpoints(saver: BaseCheckpointSaver[Any], source_id: str, target_id: str) -> None:
    newest_first = [item async for item in saver.alist({"configurable": {"thread_id": source_id}})]
    for item in reversed(newest_first):
        await _copy_checkpoint(saver, item, target_id)


async def _copy_checkpoint(saver: BaseCheckpointSaver[Any], item: CheckpointTuple, target_id: str) -> None:
    parent = (item.parent_config or {}).get("configurable") or {}
    target: RunnableConfig = {
        "configurable": {
            "thread_id": target_id,
            "checkpoint_ns": item.config["configurable"].get("checkpoint_ns", ""),
            "checkpoint_id": parent.get("checkpoint_id"),
        }
    }
    metadata = cast(Any, {**item.metadata, "thread_id": target_id})
    versions = item.checkpoint["channel_versions"]
    stored = await saver.aput(target, item.checkpoint, metadata, versions)
    writes: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    for task_id, channel, value in item.pending_writes or ():
        writes[task_id].append((channel, value))
    for task_id, task_writes in writes.items():
        await saver.aput_writes(stored, task_writes, task_id)
