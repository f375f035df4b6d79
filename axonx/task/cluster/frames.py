"""What travels between a service and the Dask worker that runs its Task: bounded frames in bounded queues.

Frames hold JSON values and bytes only, so nothing is pickled but the reference to one function.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

from axonx.task.metadata import TaskMetadata

#: The largest piece of a file, a log or an event log in one frame.
CHUNK_BYTES = 262_144
#: Frames that wait at the scheduler for one service, or for one worker; whoever sends more waits.
QUEUE_FRAMES = 8
#: A worker says so often that it is alive when it has nothing else to say.
ALIVE_SECONDS = 1.0
#: A worker whose frames nobody takes for so long has lost its service, and ends its Task.
ORPHANED_SECONDS = 60.0

#: What the function in the cluster returns: the run has ended and was told, or another worker had begun it.
DONE = "done"
TAKEN = "taken"


class FrameKind(StrEnum):
    """What a frame says; its payload is in brackets."""

    BEGUN = "begun"  # a worker has taken the order (its address)
    ALIVE = "alive"  # nothing new (null)
    RECORD = "record"  # how the record stands (its JSON)
    EVENTS = "events"  # the next bytes of the event log
    LOG = "log"  # the next bytes of the log
    FILE = "file"  # a file begins (path in the workspace, mtime_ns, mode)
    DATA = "data"  # its next bytes
    GONE = "gone"  # a file was removed (path in the workspace)
    FILES_END = "files_end"  # all files are through (null)
    EXIT = "exit"  # the process has ended (return code)


#: Sends one frame; waits while the queue is full.
SendFrame = Callable[[FrameKind, Any], Awaitable[None]]


class WorkerOrder(BaseModel):
    """What a worker is to run: taken from the queue of the run, so that it is taken once."""

    model_config = ConfigDict(frozen=True)

    version: str
    record: TaskMetadata
    target: str
    environment: dict[str, str]
    grace_seconds: float


def inbox_name(run_id: str) -> str:
    """The queue that takes a run's order and files to its worker."""
    return f"axonx-inbox-{run_id}"


def cancel_name(run_id: str) -> str:
    """The Dask Event that asks a run to end."""
    return f"axonx-cancel-{run_id}"
