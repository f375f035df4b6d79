"""Savers that let a run write checkpoints only as long as its host has it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, Checkpoint, CheckpointMetadata

Place = tuple[str, str, str]
"""Of a checkpoint: thread id, namespace, checkpoint id."""

Fence = Callable[[str | None], AbstractAsyncContextManager[None]]
"""Put around each write of a run (`None`: of no run); raises where it must not write."""


class FencedSaver(BaseCheckpointSaver[Any]):
    """Asks before each write, and tells when it is done: a host that was paused until another one took up its
    runs would otherwise write over what that one did meanwhile, and a run that is over into the next one."""

    fence: Fence | None = None

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        async with self._writing(config):
            return await super().aput(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        async with self._writing(config):
            await super().aput_writes(config, writes, task_id, task_path)

    @abstractmethod
    async def adelete_for_runs(self, run_ids: Sequence[str], *, thread_id: str | None = None) -> None:
        """Remove the checkpoints that runs wrote. Without `thread_id` on every thread, which takes a look at
        each of them, and copies of a thread name the run that wrote the original."""

    @abstractmethod
    async def adelete_writes(self, place: Place, writes: Collection[tuple[str, str]]) -> None:
        """Remove what tasks wrote to channels (task id, channel) from the checkpoint at `place`."""

    def _writing(self, config: RunnableConfig) -> AbstractAsyncContextManager[None]:
        if self.fence is None:
            return nullcontext()
        return self.fence(config.get("metadata", {}).get("run_id"))
