"""How a Task is called: its type, its registered name, its own name, and its runs."""

from __future__ import annotations

import re
import secrets
import string
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_TASK_NAME = re.compile(r"[A-Za-z0-9-]{1,32}")
_REGISTERED_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_RANDOM_CHARACTERS = string.ascii_lowercase + string.digits


class TaskType(StrEnum):
    """What a Task does; also the name of the directory in the workspace that holds its records."""

    BASE = "base"
    COMPOSITE = "composite"
    API = "api"
    ETL = "etl"
    ANALYSIS = "analysis"
    TRAIN = "train"
    PREDICT = "predict"
    INFERENCE = "inference"
    BACKTEST = "backtest"


@dataclass(frozen=True)
class TaskIdentity:
    """The three parts of a Task ID; `str()` gives `<type>#<registered name>#<task name>`."""

    task_type: TaskType
    reg_name: str
    task_name: str

    def __str__(self) -> str:
        return f"{self.task_type}#{self.reg_name}#{self.task_name}"

    @classmethod
    def parse(cls, task_id: str) -> TaskIdentity:
        """The parts of `task_id`. Raises ValueError for anything that is not a Task ID."""
        parts = task_id.split("#") if isinstance(task_id, str) else []
        try:
            task_type, reg_name, task_name = parts
            return cls(
                TaskType(task_type), validate_registration_name(reg_name), checked_task_name(task_name)
            )
        except ValueError:
            raise ValueError(
                f"Invalid Task ID: {task_id!r}; expected <type>#<registered name>#<task name>"
            ) from None


def validate_registration_name(name: str) -> str:
    """`name` itself. Raises ValueError unless it can be a part of a Task ID and of a path."""
    if not isinstance(name, str) or not _REGISTERED_NAME.fullmatch(name):
        raise ValueError(
            f"Invalid registered Task name: {name!r}; use 1-64 letters, digits, '_', '.' or '-', "
            "beginning with a letter or digit"
        )
    return name


def checked_task_name(name: str) -> str:
    """`name` itself. Raises ValueError unless it is 1-32 letters, digits and hyphens."""
    if not _TASK_NAME.fullmatch(name):
        raise ValueError(f"task_name must be 1-32 letters, digits or hyphens, got {name!r}")
    return name


def generated_task_name(created_at: datetime) -> str:
    """`YYYYMMDDHH` of `created_at`, then four random letters and digits."""
    return f"{created_at:%Y%m%d%H}" + "".join(secrets.choice(_RANDOM_CHARACTERS) for _ in range(4))


def new_run_id() -> str:
    """An id that no other run has: 32 hexadecimal digits."""
    return uuid.uuid4().hex


def parse_source_tasks(value: str) -> list[str]:
    """The Task IDs of a comma-separated list, in its order; empty text gives an empty list.

    Raises ValueError for what is not a Task ID and for one that is given twice.
    """
    task_ids: list[str] = []
    for part in filter(None, (part.strip() for part in value.split(","))):
        task_id = str(TaskIdentity.parse(part))
        if task_id in task_ids:
            raise ValueError(f"Duplicate source Task: {task_id}")
        task_ids.append(task_id)
    return task_ids


def task_type_from_id(task_id: str) -> TaskType:
    """The type that `task_id` begins with. Raises ValueError for an invalid Task ID."""
    return TaskIdentity.parse(task_id).task_type


def timezone_named(name: str) -> tzinfo:
    """The IANA time zone `name`. Raises ValueError for an unknown one."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"Unknown timezone: {name!r}") from None
