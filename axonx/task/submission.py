"""What is checked before a worker starts: the input, and that the class can be imported again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from axonx.task.base import BaseTask, validated_input
from axonx.task.errors import TaskInputError
from axonx.task.execute import TaskRequest, new_record
from axonx.task.metadata import TaskMetadata
from axonx.task.records import TaskRecords
from axonx.task.targets import importable_target


@dataclass(frozen=True)
class Submission:
    """A queued record that is not written yet, and the `module:qualname` of its Task's class."""

    record: TaskMetadata
    target: str


def prepare_submission(
    task_cls: type[BaseTask], arguments: Mapping[str, Any], *, name: str, workspace_path: Path, timezone: str
) -> Submission:
    """Check a submission without a trace on the disk. Raises ValueError, TypeError, TaskImportError."""
    target = importable_target(task_cls)
    input_params = validated_input(task_cls, arguments)
    request = TaskRequest(task_cls, input_params, timezone, name)
    record = new_record(request, "submit", TaskRecords(workspace_path))
    try:
        same = task_cls.input_cls.model_validate(record.input_params) == input_params
    except ValidationError:
        same = False
    if not same:
        raise TaskInputError(
            f"Input of Task {name!r} cannot be handed to a worker process: "
            f"{task_cls.input_cls.__name__} reads something else from its own JSON; exec takes it as it is"
        )
    return Submission(record, target)
