"""Files on their way between the workspace of a service and the one that a worker has for a run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from axonx.core.paths import confined
from axonx.task.artifacts import ArtifactRecord
from axonx.task.cluster.frames import CHUNK_BYTES, FrameKind, SendFrame
from axonx.task.layout import FRAMEWORK_FILES
from axonx.task.metadata import TaskMetadata
from axonx.task.params import BaseInputParams
from axonx.task.records import TaskRecords

#: Size in bytes and modification time in ns: enough to see that a file has not changed.
FileState = tuple[int, int]


def input_files(records: TaskRecords, record: TaskMetadata) -> list[Path]:
    """What a worker needs: the persistent files of the Task; record and artifacts of each source."""
    layout = records.layout
    found = [*regular_files(layout.task_dir(record.task_id))]
    params = {"source_tasks": record.input_params.get("source_tasks") or ""}
    for source_id in BaseInputParams.model_validate(params).source_task_ids():
        source = records.find(source_id)
        if source is not None:  # else the Task itself says that it is missing
            directory = layout.task_dir(source_id)
            artifacts = map(ArtifactRecord.model_validate, source.output_params.get("artifacts", {}).values())
            found += [layout.metadata_path(source_id), *(directory / each.path for each in artifacts)]
    return [path for path in found if path.is_file()]


def regular_files(task_dir: Path) -> Iterator[Path]:
    """The files of a Task, in order; neither the framework's own nor anything behind a link."""
    for directory, names, files in os.walk(task_dir):
        names.sort()
        for name in sorted(files):
            path = Path(directory, name)
            own = directory == str(task_dir) and name in FRAMEWORK_FILES
            if not own and stat.S_ISREG(path.lstat().st_mode):
                yield path


async def send_files(send: SendFrame, workspace: Path, paths: Iterable[Path]) -> None:
    """Send each file in frames. Raises OSError."""
    for path in paths:
        with await asyncio.to_thread(path.open, "rb") as file:
            status = os.fstat(file.fileno())
            header = {
                "path": path.relative_to(workspace).as_posix(),
                "mtime_ns": status.st_mtime_ns,
                "mode": stat.S_IMODE(status.st_mode),
            }
            await send(FrameKind.FILE, header)
            while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):
                await send(FrameKind.DATA, chunk)
    await send(FrameKind.FILES_END, None)


class FileReceiver:
    """Writes the files that come in frames; each one appears whole, with the sender's times.

    Synchronous. Raises OSError, PathOutsideWorkspaceError.
    """

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._header: dict[str, Any] = {}
        self._file: IO[bytes] | None = None
        self.received: dict[str, FileState] = {}

    def take(self, kind: FrameKind, payload: Any) -> None:
        """Do what one frame says: FILE, DATA, GONE or FILES_END."""
        if kind == FrameKind.DATA:
            if self._file is not None:
                self._file.write(payload)
            return
        self._finish()
        if kind == FrameKind.FILE:
            self._header = payload
            target = self._target(payload["path"])
            target.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(target.with_name(f".{uuid.uuid4().hex}.part"), "xb")  # noqa: SIM115
        elif kind == FrameKind.GONE:
            self._target(payload).unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove a file that did not come to its end."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
            with contextlib.suppress(OSError):
                os.unlink(file.name)

    def _finish(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        file.close()
        mtime_ns = self._header["mtime_ns"]
        os.chmod(file.name, self._header["mode"])
        os.utime(file.name, ns=(mtime_ns, mtime_ns))
        size = os.stat(file.name).st_size
        os.replace(file.name, self._target(self._header["path"]))
        self.received[self._header["path"]] = (size, mtime_ns)

    def _target(self, path: str) -> Path:
        return confined(self._workspace, path)
