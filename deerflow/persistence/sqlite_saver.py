"""LangGraph's SQLite saver for asynchronous graphs, which also forgets old checkpoints and single runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from deerflow.persistence.checkpoint_fence import FencedSaver, Place
from deerflow.persistence.sqlite_pruning import delete_all, delete_runs, delete_writes, keep_latest
from deerflow.persistence.sqlite_thread import SqliteThread

LIST_PAGE: Final = 50


class ThreadedSqliteSaver(SqliteSaver):
    """LangGraph's SQLite saver for asynchronous graphs: each call is one job in a thread of its own.

    LangGraph's asynchronous saver hops between threads for each statement, and one that is cancelled
    between two of them leaves a transaction open, and with it the file's write lock taken. A job here is
    finished whole or, where it had not begun when its caller was cancelled, never run.
    """

    def __init__(self, thread: SqliteThread, *, serde: JsonPlusSerializer | None = None) -> None:
        super().__init__(thread.connection, serde=serde)
        self._run = thread.run

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._run(partial(self.get_tuple, config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        remaining = limit
        while remaining is None or remaining > 0:
            size = LIST_PAGE if remaining is None else min(LIST_PAGE, remaining)
            page = await self._run(partial(self._page, config, filter, before, size))
            for item in page:
                yield item
            if len(page) < size:
                return
            before = page[-1].config
            remaining = None if remaining is None else remaining - size

    def _page(
        self,
        config: RunnableConfig | None,
        metadata: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int,
    ) -> Sequence[CheckpointTuple]:
        return tuple(self.list(config, filter=metadata, before=before, limit=limit))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await self._run(partial(self.put, config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await self._run(partial(self.put_writes, config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        await self._run(partial(self.delete_thread, thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        prune_thread = {"keep_latest": keep_latest, "delete": delete_all}.get(strategy)
        if prune_thread is None:
            raise ValueError(f"unknown strategy {strategy!r}; allowed: 'keep_latest', 'delete'")
        for thread_id in thread_ids:
            self._change(prune_thread, thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._run(partial(self.prune, thread_ids, strategy=strategy))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await self._run(partial(self.get_delta_channel_history, config=config, channels=channels))

    def _change(self, change: Callable[..., None], *arguments: Any) -> None:
        with self.cursor(transaction=False) as cursor, self.conn:
            change(cursor, *arguments)


class HostSqliteSaver(FencedSaver, ThreadedSqliteSaver):
    """The saver of hosts on a SQLite file."""

    async def adelete_for_runs(self, run_ids: Sequence[str], *, thread_id: str | None = None) -> None:
        await self._run(partial(self._change, delete_runs, run_ids, thread_id))

    async def adelete_writes(self, place: Place, writes: Collection[tuple[str, str]]) -> None:
        await self._run(partial(self._change, delete_writes, place, writes))
