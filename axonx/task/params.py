"""What goes into a Task and what comes out: the two models every Task's own extend."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from axonx.task.artifacts import ArtifactRecord
from axonx.task.identity import TaskType, checked_task_name, parse_source_tasks, task_type_from_id


class BaseInputParams(BaseModel):
    """The input of a Task; unknown fields are refused, and error messages do not repeat values.

    `task_name` is the last part of the Task ID, generated when it is None or empty;
    `source_tasks` are the Task IDs, separated by commas, whose artifacts this Task reads.
    """

    model_config = ConfigDict(extra="forbid", validate_assignment=True, hide_input_in_errors=True)

    task_name: str | None = None
    source_tasks: str = Field(default="", description="Upstream Task IDs separated by ASCII commas.")

    @field_validator("task_name", mode="before")
    @classmethod
    def validate_task_name(cls, name: Any) -> str | None:
        if name is None or name == "":
            return None
        if not isinstance(name, str):
            raise ValueError("task_name must be text")
        return checked_task_name(name)

    @field_validator("source_tasks")
    @classmethod
    def validate_source_tasks(cls, sources: str) -> str:
        return ",".join(parse_source_tasks(sources))

    def source_task_ids(self) -> list[str]:
        """The Task IDs of `source_tasks`, in their order; may be empty."""
        return parse_source_tasks(self.source_tasks)

    def source_task(self, task_type: TaskType) -> str:
        """The one source Task of that type. Raises ValueError when there is none, or more than one."""
        found = [task_id for task_id in self.source_task_ids() if task_type_from_id(task_id) == task_type]
        if len(found) != 1:
            raise ValueError(f"source_tasks must name exactly one {task_type} Task, found {len(found)}")
        return found[0]


class BaseOutputParams(BaseModel):
    """The output of a Task; `artifacts` maps a name to a published file."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, hide_input_in_errors=True)

    artifacts: dict[str, ArtifactRecord] = Field(default_factory=dict)
