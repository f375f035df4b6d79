"""Removing checkpoints from LangGraph's SQLite tables: old ones, and those of single runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from typing import Final

# SQLite gives the other columns of the row that has the maximum.
_HEADS: Final = (
    "SELECT checkpoint_ns, max(checkpoint_id), json_extract(CAST(metadata AS TEXT), '$.parents.\"\"')"
    " FROM checkpoints WHERE thread_id = ? GROUP BY checkpoint_ns"
)
_DELTAS: Final = (
    "SELECT 1 FROM checkpoints WHERE thread_id = ?"
    " AND json_type(CAST(metadata AS TEXT), '$.counters_since_delta_snapshot') IS NOT NULL LIMIT 1"
)
_PLACE: Final = "thread_id, checkpoint_ns, checkpoint_id"
_AT_PLACE: Final = "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
_OLDER_THAN: Final = "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id < ?"
_WHOLE_NAMESPACE: Final = "thread_id = ? AND checkpoint_ns = ?"


def keep_latest(cursor: sqlite3.Cursor, thread_id: str) -> None:
    """Remove all but the newest checkpoint of each namespace of a thread.

    The namespace of one subgraph call (it has a ":") goes with the root checkpoint that the call began from.
    Raises `NotImplementedError` for a thread whose channels are stored as differences to older checkpoints.
    """
    if cursor.execute(_DELTAS, (thread_id,)).fetchone() is not None:
        raise NotImplementedError(f"thread {thread_id} uses a DeltaChannel: its checkpoints need each other")
    heads = cursor.execute(_HEADS, (thread_id,)).fetchall()
    root = next((head for namespace, head, _ in heads if namespace == ""), None)
    for namespace, head, began_from in heads:
        if ":" in namespace and root is not None and began_from not in (None, root):
            _delete(cursor, _WHOLE_NAMESPACE, thread_id, namespace)
            continue
        _delete(cursor, _OLDER_THAN, thread_id, namespace, head)
        cursor.execute(
            f"UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE {_WHOLE_NAMESPACE}",
            (thread_id, namespace),
        )


def delete_all(cursor: sqlite3.Cursor, thread_id: str) -> None:
    """Remove every checkpoint of a thread."""
    _delete(cursor, "thread_id = ?", thread_id)


def delete_runs(cursor: sqlite3.Cursor, run_ids: Sequence[str], thread_id: str | None) -> None:
    """Remove the checkpoints that runs wrote, on one thread or on all, with what is written to them."""
    marks = ", ".join("?" * len(run_ids))
    condition = f"json_extract(CAST(metadata AS TEXT), '$.run_id') IN ({marks})"
    parameters = list(run_ids)
    if thread_id is not None:
        condition += " AND thread_id = ?"
        parameters.append(thread_id)
    found = cursor.execute(f"SELECT {_PLACE} FROM checkpoints WHERE {condition}", parameters).fetchall()
    for table in ("writes", "checkpoints"):
        cursor.executemany(f"DELETE FROM {table} WHERE {_AT_PLACE}", found)


def delete_writes(
    cursor: sqlite3.Cursor, place: tuple[str, str, str], writes: Collection[tuple[str, str]]
) -> None:
    """Remove what tasks wrote to channels (task id, channel) from the checkpoint at `place`."""
    rows = [(*place, *write) for write in writes]
    cursor.executemany(f"DELETE FROM writes WHERE {_AT_PLACE} AND task_id = ? AND channel = ?", rows)


def _delete(cursor: sqlite3.Cursor, condition: str, *parameters: str) -> None:
    for table in ("checkpoints", "writes"):
        cursor.execute(f"DELETE FROM {table} WHERE {condition}", parameters)
