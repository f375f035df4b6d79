"""What is checked before a worker starts: the input, and that the class can be imported again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from axonx.task.base import validated_input
from axonx.task.catalogue import TaskCatalogue
from axonx.task.errors import TaskInputError
from axonx.task.execute import TaskRequest, new_record
from axonx.task.metadata import TaskMetadata
from axonx.task.params import BaseInputParams
from axonx.task.records import TaskRecords
from axonx.task.targets import importable_target


@dataclass(frozen=True)
class Submission:
    """A queued record that is not written yet, and the `module:qualname` of its Task's class."""

    record: TaskMetadata
    target: str


@dataclass(frozen=True)
class SubmissionPlace:
    """Where, and in which time zone, a submitted Task runs."""

    workspace_path: Path
    timezone: str


def prepare_submission(
    catalogue: TaskCatalogue, name: str, arguments: Mapping[str, Any], place: SubmissionPlace
) -> Submission:
    """Check a submission without a trace on the disk.

    Raises UnknownTaskError, ValueError and TypeError for the input, TaskImportError.
    """
    task_cls = catalogue.resolve(name)
    target = importable_target(task_cls)
    input_params = validated_input(task_cls, arguments)
    request = TaskRequest(task_cls, input_params, place.timezone, name)
    record = new_record(request, "submit", TaskRecords(place.workspace_path))
    if not _survives_json(input_params, record.input_params):
        raise TaskInputError(
            f"Input of Task {name!r} cannot be handed to a worker process: "
            f"{task_cls.input_cls.__name__} reads something else from its own JSON; exec takes it as it is"
        )
    return Submission(record, target)


def _survives_json(input_params: BaseInputParams, as_json: Mapping[str, Any]) -> bool:
    try:
        return type(input_params).model_validate(dict(as_json)) == input_params
    except ValidationError:
        return False
