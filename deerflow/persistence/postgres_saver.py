"""LangGraph's PostgreSQL saver, which also forgets single runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

from deerflow.persistence.checkpoint_fence import FencedSaver, Place

_DELETE_CHECKPOINTS: Final = """
    DELETE FROM checkpoints
    WHERE metadata ->> 'run_id' = ANY(%(runs)s) AND (%(thread)s::text IS NULL OR thread_id = %(thread)s)
    RETURNING thread_id, checkpoint_ns, checkpoint_id, checkpoint -> 'channel_versions' AS versions
"""
_DELETE_ALL_WRITES: Final = """
    DELETE FROM checkpoint_writes
    WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s
"""
_DELETE_WRITES: Final = _DELETE_ALL_WRITES + " AND task_id = %s AND channel = %s"
_DELETE_BLOBS: Final = """
    DELETE FROM checkpoint_blobs AS blob
    WHERE thread_id = %s AND checkpoint_ns = %s AND channel = %s AND version = %s AND NOT EXISTS (
        SELECT 1 FROM checkpoints
        WHERE thread_id = blob.thread_id AND checkpoint_ns = blob.checkpoint_ns
        AND checkpoint -> 'channel_versions' ->> blob.channel = blob.version
    )
"""


class HostPostgresSaver(FencedSaver, AsyncPostgresSaver):
    """The saver of hosts on PostgreSQL."""

    async def adelete_for_runs(self, run_ids: Sequence[str], *, thread_id: str | None = None) -> None:
        parameters = {"runs": list(run_ids), "thread": thread_id}
        async with self._cursor() as cursor, cursor.connection.transaction():
            await cursor.execute(_DELETE_CHECKPOINTS, parameters)
            gone = await cursor.fetchall()
            if gone:
                await cursor.executemany(_DELETE_ALL_WRITES, [_place(row) for row in gone])
                await cursor.executemany(_DELETE_BLOBS, sorted(_blobs_of(gone)))

    async def adelete_writes(self, place: Place, writes: Collection[tuple[str, str]]) -> None:
        async with self._cursor() as cursor, cursor.connection.transaction():
            await cursor.executemany(_DELETE_WRITES, [(*place, *write) for write in writes])


def _place(row: dict[str, Any]) -> Place:
    return row["thread_id"], row["checkpoint_ns"], row["checkpoint_id"]


def _blobs_of(rows: Iterable[dict[str, Any]]) -> set[tuple[str, str, str, str]]:
    return {
        (row["thread_id"], row["checkpoint_ns"], channel, str(version))
        for row in rows
        for channel, version in (row["versions"] or {}).items()
    }
