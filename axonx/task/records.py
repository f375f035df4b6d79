"""Task records on disk: claimed, changed and deleted under locks that hold across processes."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import ValidationError

from axonx.task.atomic import write_atomically
from axonx.task.errors import (
    ActiveTaskError,
    TaskLockError,
    TaskNotFoundError,
    TaskRecordError,
    TaskRunChangedError,
)
from axonx.task.identity import TaskIdentity, TaskType
from axonx.task.layout import (
    METADATA_FILE,
    METADATA_TEMPORARY_FILE,
    PERSISTENT_DIRECTORY,
    WorkspaceLayout,
)
from axonx.task.metadata import TaskMetadata, TaskState

_logger = logging.getLogger(__name__)
_KEPT_ON_RERUN = frozenset({METADATA_FILE, METADATA_TEMPORARY_FILE, PERSISTENT_DIRECTORY})


class TaskRecords:
    """The records of one workspace. Synchronous; every wait for a lock is bounded.

    Reading takes no lock. A record that has reached its end is never changed again.
    """

    def __init__(self, workspace_path: Path, *, lock_timeout_seconds: float = 10) -> None:
        self.layout = WorkspaceLayout(workspace_path)
        self._lock_timeout_seconds = lock_timeout_seconds

    def find(self, task_id: str) -> TaskMetadata | None:
        """The current record, None when there is none. Raises ValueError, TaskRecordError."""
        path = self.layout.metadata_path(task_id)
        try:
            return TaskMetadata.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (ValidationError, OSError) as error:
            raise TaskRecordError(path, error) from error

    def read(self, task_id: str) -> TaskMetadata:
        """The current record. Raises TaskNotFoundError, ValueError, TaskRecordError."""
        record = self.find(task_id)
        if record is None:
            raise TaskNotFoundError(task_id)
        return record

    def read_run(self, task_id: str, run_id: str) -> TaskMetadata:
        """The record of exactly that run. Raises also TaskRunChangedError."""
        record = self.read(task_id)
        if record.run_id != run_id:
            raise TaskRunChangedError(task_id)
        return record

    def find_all(
        self, task_type: TaskType | None = None, state: TaskState | None = None
    ) -> list[TaskMetadata]:
        """All matching records, oldest first. One that is damaged is left out, with a warning."""
        types = TaskType if task_type is None else [task_type]
        found = [record for each in types for record in self._records_of(each)]
        matching = [record for record in found if state is None or record.state == state]
        return sorted(matching, key=lambda record: (record.created_at, record.task_id))

    def claim(self, record: TaskMetadata) -> None:
        """Make `record` the Task's current run and clear what the last one left, `persistent/` apart.

        Raises ActiveTaskError while another run is active.
        """
        directory = self.layout.task_dir(record.task_id)
        with self._locked(record.task_id):
            current = self.find(record.task_id)
            if current is not None and not current.state.is_terminal:
                raise ActiveTaskError(f"Active Task already exists: {record.task_id}")
            (directory / PERSISTENT_DIRECTORY).mkdir(parents=True, exist_ok=True)
            self._write(record)
            left = [path for path in directory.iterdir() if path.name not in _KEPT_ON_RERUN]
            trash = self._set_aside(left)
        shutil.rmtree(trash, ignore_errors=True)

    def update(
        self, task_id: str, run_id: str, change: Callable[[TaskMetadata], TaskMetadata]
    ) -> TaskMetadata:
        """Write what `change` makes of the record, and return it; a terminal record is returned as it is.

        Raises TaskNotFoundError, TaskRunChangedError, TaskLockError, OSError.
        """
        with self._locked(task_id):
            current = self.read_run(task_id, run_id)
            if current.state.is_terminal:
                return current
            changed = change(current)
            self._write(changed)
            return changed

    def delete(self, task_id: str) -> None:
        """Remove a Task that is not active, `persistent/` included, all of it or nothing.

        Raises TaskNotFoundError, ActiveTaskError.
        """
        with self._locked(task_id):
            if not self.read(task_id).state.is_terminal:
                raise ActiveTaskError(f"Active Task cannot be deleted: {task_id}; cancel it first")
            trash = self._set_aside([self.layout.task_dir(task_id)])
        shutil.rmtree(trash, ignore_errors=True)

    def empty_trash(self) -> None:
        """Remove what an interrupted rerun or deletion left behind."""
        shutil.rmtree(self.layout.trash_dir(), ignore_errors=True)

    def _records_of(self, task_type: TaskType) -> Iterator[TaskMetadata]:
        directory = self.layout.type_dir(task_type)
        names = sorted(os.listdir(directory)) if directory.is_dir() else []
        for name in names:
            try:
                if TaskIdentity.parse(name).task_type != task_type:
                    continue
                record = self.find(name)
            except TaskRecordError as error:
                _logger.warning("%s", error)
            except ValueError:  # some other directory
                continue
            else:
                if record is not None:
                    yield record

    def _write(self, record: TaskMetadata) -> None:
        directory = self.layout.task_dir(record.task_id)
        data = record.model_dump_json(indent=2).encode() + b"\n"
        write_atomically(directory / METADATA_FILE, directory / METADATA_TEMPORARY_FILE, data)

    def _set_aside(self, paths: list[Path]) -> Path:
        trash = self.layout.trash_dir() / uuid.uuid4().hex
        if paths:
            trash.mkdir(parents=True)
        for path in paths:
            os.rename(path, trash / path.name)
        return trash

    @contextlib.contextmanager
    def _locked(self, task_id: str) -> Iterator[None]:
        path = self.layout.lock_path(task_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path, timeout=self._lock_timeout_seconds)
        try:
            lock.acquire()
        except Timeout:
            raise TaskLockError(task_id, path, self._lock_timeout_seconds) from None
        try:
            yield
        finally:
            lock.release()
