"""What clients send to start runs, and what of it this host can do."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from deerflow.errors import InvalidRequestError
from deerflow.gateway.bodies.options import known_config, known_options, options_in
from deerflow.gateway.webhooks.addresses import MAX_URL_CHARS
from deerflow.persistence.assistants import AssistantRecord
from deerflow.runs.request import RunRequest, checked_id

MAX_DELAY_SECONDS = 7 * 24 * 3600

StreamMode = Literal[
    "values", "updates", "messages", "messages-tuple", "custom", "debug", "tasks", "checkpoints", "events"
]
_NOT_ON_OFFER = ("feedback_keys", "langsmith_tracer", "strict_resume")

NodeNames = Literal["*"] | list[str]
Object = dict[str, Any]


class CommandBody(BaseModel):
    """How to go on from an interrupt, or with a changed state."""

    model_config = ConfigDict(extra="forbid")

    resume: Any = None
    update: Object | list[Any] | None = None
    goto: Any = None


class CheckpointBody(BaseModel):
    """A point in a thread's history; some clients wrap it in `configurable`."""

    model_config = ConfigDict(extra="ignore")

    thread_id: str | None = None
    checkpoint_ns: str | None = None
    checkpoint_id: str | None = None
    checkpoint_map: Object | None = None

    @model_validator(mode="before")
    @classmethod
    def _unwrapped(cls, value: Any) -> Any:
        inner = value.get("configurable") if isinstance(value, dict) else None
        return inner if isinstance(inner, dict) else value


class RunBody(BaseModel):
    """One run on a thread. Keys that no client of LangGraph's API sends are ignored."""

    model_config = ConfigDict(extra="ignore")

    assistant_id: str
    input: Any = None
    command: CommandBody | None = None
    config: Object | None = None
    context: Object | None = None
    metadata: Object | None = None
    stream_mode: StreamMode | list[StreamMode] | None = None
    stream_subgraphs: bool | None = None
    stream_resumable: bool | None = None
    interrupt_before: NodeNames | None = None
    interrupt_after: NodeNames | None = None
    checkpoint: CheckpointBody | None = None
    checkpoint_id: str | None = None
    multitask_strategy: Literal["reject", "interrupt", "rollback", "enqueue"] | None = None
    if_not_exists: Literal["create", "reject"] | None = None
    on_disconnect: Literal["cancel", "continue"] | None = None
    after_seconds: Annotated[float, Field(ge=0, le=MAX_DELAY_SECONDS, allow_inf_nan=False)] | None = None
    durability: Literal["sync", "async", "exit"] | None = None
    checkpoint_during: bool | None = None
    strict_resume: bool | None = None
    webhook: Annotated[str, Field(max_length=MAX_URL_CHARS)] | None = None
    feedback_keys: list[str] | None = None
    langsmith_tracer: Object | None = None

    @field_validator("input")
    @classmethod
    def _input_is_state(cls, value: Any) -> Any:
        if value is not None and not isinstance(value, dict):
            raise ValueError("the input is an object with the state's keys, such as messages, or null")
        return value

    @model_validator(mode="after")
    def _is_on_offer(self) -> RunBody:
        unavailable = [name for name in _NOT_ON_OFFER if getattr(self, name)]
        if unavailable:
            raise ValueError(f"this server does not offer: {', '.join(unavailable)}; leave it out")
        return self


class StatelessRunBody(RunBody):
    """One run on a thread of its own, which is deleted afterwards unless it is to be kept."""

    on_completion: Literal["delete", "keep"] | None = None


def run_request(body: RunBody, thread_id: str, user_id: str | None, assistant: AssistantRecord) -> RunRequest:
    """The run that `body` asks for on a thread: what it does not say, the assistant says."""
    return RunRequest(
        thread_id=thread_id,
        user_id=user_id,
        assistant_id=assistant.assistant_id,
        input=body.input,
        command=None if body.command is None else body.command.model_dump(),
        context=known_options(assistant.context | options_in(body.config, body.context)),
        config=known_config(assistant.config | (body.config or {})),
        metadata=body.metadata or {},
        stream_modes=_stream_modes(body),
        stream_subgraphs=bool(body.stream_subgraphs),
        interrupt_before=body.interrupt_before,
        interrupt_after=body.interrupt_after,
        checkpoint_id=_checkpoint_id(body, thread_id),
        multitask_strategy=body.multitask_strategy or "enqueue",
        if_not_exists=body.if_not_exists or "reject",
        durability=_durability(body),
        after_seconds=body.after_seconds or 0.0,
        webhook=body.webhook,
    )


def checkpoint_id_of(checkpoint: CheckpointBody | None, thread_id: str) -> str | None:
    """The id that a checkpoint of this thread's root names; None where it names none."""
    if checkpoint is None:
        return None
    if checkpoint.thread_id is not None and checkpoint.thread_id != thread_id:
        raise InvalidRequestError(f"checkpoint.thread_id: {checkpoint.thread_id!r} is another thread")
    if checkpoint.checkpoint_ns:
        raise InvalidRequestError("checkpoint.checkpoint_ns: only the root namespace '' can be named")
    if checkpoint.checkpoint_id is None:
        return None
    return checked_id(checkpoint.checkpoint_id, "checkpoint_id")


def _stream_modes(body: RunBody) -> tuple[str, ...]:
    modes = body.stream_mode or ["values"]
    return (modes,) if isinstance(modes, str) else tuple(dict.fromkeys(modes))


def _durability(body: RunBody) -> Literal["sync", "async", "exit"] | None:
    if body.durability is None and body.checkpoint_during is not None:
        return "async" if body.checkpoint_during else "exit"
    return body.durability


def _checkpoint_id(body: RunBody, thread_id: str) -> str | None:
    named = checkpoint_id_of(body.checkpoint, thread_id)
    if body.checkpoint_id is None:
        return named
    return checked_id(body.checkpoint_id, "checkpoint_id")
