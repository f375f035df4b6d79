"""LangGraph's saver in memory, which also forgets single runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from deerflow.persistence.checkpoint_fence import FencedSaver, Place


class HostMemorySaver(FencedSaver, InMemorySaver):
    """The saver of hosts whose database is in memory."""

    async def adelete_for_runs(self, run_ids: Sequence[str], *, thread_id: str | None = None) -> None:
        for thread in list(self.storage) if thread_id is None else [thread_id]:
            self._delete(thread, run_ids)

    async def adelete_writes(self, place: Place, writes: Collection[tuple[str, str]]) -> None:
        kept = self.writes.get(place, {})
        for key, (task_id, channel, *_) in list(kept.items()):
            if (task_id, channel) in writes:
                del kept[key]

    def _delete(self, thread_id: str, run_ids: Sequence[str]) -> None:
        used: set[tuple[Any, ...]] = set()
        for namespace, checkpoints in self.storage.get(thread_id, {}).items():
            for checkpoint_id, (checkpoint, metadata, _) in list(checkpoints.items()):
                if self.serde.loads_typed(metadata).get("run_id") in run_ids:
                    del checkpoints[checkpoint_id]
                    self.writes.pop((thread_id, namespace, checkpoint_id), None)
                else:
                    versions = self.serde.loads_typed(checkpoint)["channel_versions"]
                    used |= {(thread_id, namespace, *version) for version in versions.items()}
        for key in [key for key in self.blobs if key[0] == thread_id and key not in used]:
            del self.blobs[key]
