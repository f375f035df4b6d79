"""Where a workspace keeps what: `<workspace>/<type>/<task id>/` for each Task; locks and trash."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

from axonx.task.identity import TaskIdentity, TaskType

METADATA_FILE = "metadata.json"
METADATA_TEMPORARY_FILE = ".metadata.json.tmp"
EVENTS_FILE = "events.jsonl"
LOG_FILE = "run.log"
PERSISTENT_DIRECTORY = "persistent"

#: Names in a Task's directory that no artifact may take.
FRAMEWORK_FILES = frozenset({METADATA_FILE, METADATA_TEMPORARY_FILE, EVENTS_FILE, LOG_FILE})

# Locks are held for moments, so Tasks share a fixed number of files and none has to be removed.
_LOCK_COUNT = 64


@dataclass(frozen=True)
class WorkspaceLayout:
    """The paths of one workspace; nothing is created by asking."""

    workspace_path: Path

    def type_dir(self, task_type: TaskType) -> Path:
        return self.workspace_path / task_type.value

    def task_dir(self, task_id: str) -> Path:
        """Raises ValueError for an invalid Task ID."""
        return self.type_dir(TaskIdentity.parse(task_id).task_type) / task_id

    def metadata_path(self, task_id: str) -> Path:
        return self.task_dir(task_id) / METADATA_FILE

    def events_path(self, task_id: str) -> Path:
        return self.task_dir(task_id) / EVENTS_FILE

    def log_path(self, task_id: str) -> Path:
        return self.task_dir(task_id) / LOG_FILE

    def lock_path(self, task_id: str) -> Path:
        return self.workspace_path / ".locks" / f"{zlib.crc32(task_id.encode()) % _LOCK_COUNT:02d}.lock"

    def trash_dir(self) -> Path:
        return self.workspace_path / ".trash"
