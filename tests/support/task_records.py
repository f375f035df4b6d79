"""Records of Task runs as the tests need them."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

from axonx.task import TaskMetadata
from axonx.task.identity import TaskIdentity, new_run_id
from axonx.task.metadata import TaskSource
from axonx.task.process import ProcessIdentity, this_process


def a_record(task_id: str = "base#demo#one", **changes: Any) -> TaskMetadata:
    """A queued record, supervised by this process unless `changes` say otherwise."""
    identity = TaskIdentity.parse(task_id)
    fields: dict[str, Any] = {
        "task_id": task_id,
        "run_id": new_run_id(),
        "task_type": identity.task_type,
        "reg_name": identity.reg_name,
        "source": TaskSource(kind="submit"),
        "supervisor": this_process(),
        "created_at": datetime.now(UTC),
    }
    return TaskMetadata.model_validate(fields | changes)


def an_ended_process() -> ProcessIdentity:
    """The identity of a process that was there and is gone."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        identity = ProcessIdentity.of(process.pid)
        process.kill()
    return identity
