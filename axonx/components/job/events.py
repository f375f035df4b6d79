"""The five kinds of events that a Job's stream carries; `kind` tells them apart in JSON."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

from axonx.components.job.response import JobResponse
from axonx.core.paths import check_relative

ProgressState = Literal["pending", "waiting", "running", "done", "failed", "missed", "skipped"]
BlockType = Literal["thinking", "text", "tool", "system", "error"]

RelativePath = Annotated[str, AfterValidator(check_relative)]
Count = Annotated[int | float, Field(ge=0)]


class _Event(BaseModel):
    # Validating an event again checks what was changed since it was built, and copies it.
    model_config = ConfigDict(revalidate_instances="always", allow_inf_nan=False)


class ProgressEvent(_Event):
    """How far a named piece of work has come; a later event of the same name replaces the earlier."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1)
    label: str = ""
    parent: str | None = None
    percentage: float | None = Field(default=None, ge=0, le=100)
    group: str = ""
    state: ProgressState = "pending"
    phase: str = ""
    completed: Count | None = None
    total: Count | None = None
    unit: str = ""
    scheduled_at: AwareDatetime | None = None
    deadline: AwareDatetime | None = None
    started_at: AwareDatetime | None = None
    finished_at: AwareDatetime | None = None
    updated_at: AwareDatetime | None = None
    metrics: dict[str, JsonValue] = Field(default_factory=dict)
    files: dict[str, JsonValue] = Field(default_factory=dict)
    error: str = ""
    kind: Literal["progress"] = "progress"


class LogEvent(_Event):
    """A piece of a log file: `content` is what stands between the two offsets, in bytes of the file."""

    content: str = ""
    start_offset: int = 0
    next_offset: int = 0
    file_size: int = 0
    has_more_before: bool = False
    has_more_after: bool = False
    reset: bool = False
    kind: Literal["log"] = "log"
    channel: str = "task"


class ArtifactEvent(_Event):
    """A file that is ready; `path` is relative and stays in the workspace, `size` is in bytes."""

    kind: Literal["artifact"] = "artifact"
    path: RelativePath
    sha256: str = ""
    size: int = Field(default=0, ge=0)
    media_type: str | None = None
    extra: dict[str, JsonValue] = Field(default_factory=dict)


class AgentBlockPatch(_Event):
    """One change to one block of an agent's message."""

    operation: Literal["start", "append", "replace", "finish"]
    block_id: str = Field(min_length=1)
    block_type: BlockType
    delta: str = ""
    payload: dict[str, JsonValue] = Field(default_factory=dict)


class AgentMessageEvent(_Event):
    """A message of an agent's session, or the changes to one."""

    kind: Literal["agent_message"] = "agent_message"
    session_id: str = Field(min_length=1)
    type_name: str = ""
    message_uuid: str = ""
    role: Literal["user", "assistant", "system"] = "assistant"
    sequence: int = Field(default=0, ge=0)
    presentation: list[AgentBlockPatch] = Field(default_factory=list)


class ResultEvent(JobResponse):
    """The last event of every stream: the call's JobResponse."""

    kind: Literal["result"] = "result"


StepEvent = ProgressEvent | LogEvent | ArtifactEvent | AgentMessageEvent
JobEvent = Annotated[StepEvent | ResultEvent, Field(discriminator="kind")]

JOB_EVENT_ADAPTER: TypeAdapter[StepEvent | ResultEvent] = TypeAdapter(JobEvent)
