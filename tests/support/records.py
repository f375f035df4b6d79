"""Records with everything that a test does not care about."""

from __future__ import annotations

import uuid
from typing import Any

from deerflow.persistence import Database
from deerflow.runs.record import NewRunEvent, RunRecord, ThreadRecord


def new_thread(user_id: str | None = "ada", **fields: Any) -> ThreadRecord:
    """Return a thread with a new id."""
    return ThreadRecord(**{"thread_id": str(uuid.uuid4()), "user_id": user_id, **fields})


def new_run(thread: ThreadRecord, **fields: Any) -> RunRecord:
    """Return a pending run of `thread` with a new id."""
    defaults = {
        "run_id": str(uuid.uuid4()),
        "thread_id": thread.thread_id,
        "assistant_id": "lead",
        "user_id": thread.user_id,
    }
    return RunRecord(**{**defaults, **fields})


def new_event(content: Any = None, **fields: Any) -> NewRunEvent:
    """Return an event."""
    return NewRunEvent(**{"event_type": "note", "category": "custom", "content": content, **fields})


async def start_run(database: Database, thread: ThreadRecord | None = None, **fields: Any) -> RunRecord:
    """Keep a pending run, on a thread that is made where it is missing."""
    thread = thread or new_thread()
    run = new_run(thread, **fields)
    await database.stores.runs.create(run, thread=thread)
    return run
