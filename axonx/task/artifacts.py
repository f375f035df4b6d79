"""Files that a Task publishes: described once, verified at the Task's end and by every consumer."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator

from axonx.task.errors import ArtifactError
from axonx.task.layout import FRAMEWORK_FILES

# A FIFO must not block the open, a link must not be followed, and Windows must not translate line ends.
_OPEN_FLAGS = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)

_UNSAFE_PATH = re.compile(r"[\\\0]|^[A-Za-z]:")


class ArtifactRecord(BaseModel):
    """One published file of a Task.

    `path` is relative to the Task's directory, with `/`; `size` is in bytes; `revision` is
    `<mtime in ns>:<size>`; `sha256` is 64 hexadecimal digits, or empty until the Task ends.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(min_length=1)
    size: int = Field(ge=0)
    revision: str = Field(pattern=r"^\d+:\d+$")
    sha256: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    media_type: str | None = None

    @field_validator("path")
    @classmethod
    def validate_path(cls, value: str) -> str:
        return checked_artifact_path(value)


def checked_artifact_path(value: str) -> str:
    """`value` itself. Raises ValueError unless it names a file below a Task's directory."""
    parts = value.split("/")
    if _UNSAFE_PATH.search(value) or any(part in ("", ".", "..") for part in parts):
        raise ValueError("Artifact must be a relative task path")
    if parts[0] in FRAMEWORK_FILES:
        raise ValueError(f"Artifact path is reserved for the Task's own records: {parts[0]}")
    return value


def confined_artifact_path(task_dir: Path, name: str, relative: str) -> Path:
    """The file that `relative` stands for. Raises ArtifactError where a link is on the way."""
    path = task_dir
    for part in checked_artifact_path(relative).split("/"):
        path = path / part
        if path.is_symlink():
            raise ArtifactError(f"Artifact {name!r} must not pass through a link: {relative}")
    return path


def describe_artifact(
    task_dir: Path, name: str, relative: str, media_type: str | None = None
) -> ArtifactRecord:
    """The record of the file as it is now. Raises ArtifactError: missing, not regular, being written."""
    path = confined_artifact_path(task_dir, name, relative)
    with open(_open_regular(path, name, relative), "rb") as file:
        before = os.fstat(file.fileno())
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        after = os.fstat(file.fileno())
    if _revision(before) != _revision(after):
        raise ArtifactError(f"Artifact {name!r} was written while it was published: {relative}")
    return ArtifactRecord(
        path=relative, size=after.st_size, revision=_revision(after), sha256=digest, media_type=media_type
    )


def _open_regular(path: Path, name: str, relative: str) -> int:
    try:
        descriptor = os.open(path, _OPEN_FLAGS)
    except FileNotFoundError:
        raise ArtifactError(f"Artifact {name!r} is missing: {relative}") from None
    except OSError as error:
        raise ArtifactError(f"Artifact {name!r} cannot be read: {relative} ({error.strerror})") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ArtifactError(f"Artifact {name!r} is not a regular file: {relative}")
    return descriptor


def verify_artifact(task_dir: Path, name: str, record: ArtifactRecord) -> ArtifactRecord:
    """`record` with what the file itself says filled in. Raises ArtifactError when the two differ."""
    found = describe_artifact(task_dir, name, record.path, record.media_type)
    if found.size != record.size:
        difference = f"{found.size} bytes, published with {record.size}"
    elif record.sha256 and found.sha256 != record.sha256:
        difference = "other content of the same size"
    else:
        return found
    raise ArtifactError(f"Artifact {name!r} has changed since its publication: {record.path} ({difference})")


def verify_untouched(task_dir: Path, name: str, record: ArtifactRecord) -> None:
    """Return when the file has the revision of `record`; cheaper than reading it. Raises ArtifactError."""
    path = confined_artifact_path(task_dir, name, record.path)
    try:
        found = _revision(path.lstat())
    except OSError:
        raise ArtifactError(f"Artifact {name!r} is missing: {record.path}") from None
    if found != record.revision:
        raise ArtifactError(f"Artifact {name!r} has changed since its publication: {record.path}")


def _revision(status: os.stat_result) -> str:
    return f"{max(status.st_mtime_ns, 0)}:{status.st_size}"
