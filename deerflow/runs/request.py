"""What a caller asks of a run, checked and stripped of what only the host may say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID, uuid4, uuid5

from deerflow_extension_api import PROVENANCE_KEYS
from langchain_core.messages import BaseMessage
from langgraph.types import Command

from deerflow.errors import InvalidRequestError
from deerflow.runs.serialize import replace_surrogates

GRAPH_ID = "lead_agent"
# The id that LangGraph's server gives the system's assistant of a graph.
ASSISTANT_ID = str(uuid5(UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8"), GRAPH_ID))

MultitaskStrategy = Literal["reject", "interrupt", "rollback", "enqueue"]


@dataclass(frozen=True)
class RunRequest:
    """One run as it was asked for. `input=None` without a command goes on from the last checkpoint.

    `stream_modes` are LangGraph's names, with `messages-tuple` for its `messages`. `user_id` is the caller,
    `None` where the host has no users. The thread of a `temporary` run is removed at its end. `webhook` is a
    URL that is told of the end.
    """

    thread_id: str
    input: Mapping[str, Any] | None = None
    command: Mapping[str, Any] | None = None
    context: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    assistant_id: str = ASSISTANT_ID
    user_id: str | None = None
    run_id: str = field(default_factory=lambda: str(uuid4()))
    stream_modes: tuple[str, ...] = ("values",)
    stream_subgraphs: bool = False
    interrupt_before: Sequence[str] | Literal["*"] | None = None
    interrupt_after: Sequence[str] | Literal["*"] | None = None
    checkpoint_id: str | None = None
    multitask_strategy: MultitaskStrategy = "enqueue"
    if_not_exists: Literal["create", "reject"] = "reject"
    durability: Literal["sync", "async", "exit"] | None = None
    after_seconds: float = 0.0
    temporary: bool = False
    webhook: str | None = None

    @property
    def resumed(self) -> bool:
        """Whether this run goes on from where an earlier one stopped: it answers, or brings nothing new."""
        if self.command is None:
            return self.input is None
        return self.command.get("resume") is not None

    def graph_input(self) -> Any:
        """The input or command in LangGraph's form, without provenance that a caller has no right to."""
        if self.command is not None:
            return _command(self.command)
        return None if self.input is None else cleaned(dict(self.input))


def checked_id(value: str, what: str) -> str:
    """The id in its canonical form; `InvalidRequestError` where it is no UUID."""
    try:
        canonical = str(UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise InvalidRequestError(f"{what} {str(value)[:100]!r} is not a UUID") from None
    if canonical != value.lower():
        raise InvalidRequestError(
            f"{what} {value[:100]!r} is not a UUID in its usual form, like {canonical!r}"
        )
    return canonical


def cleaned(value: Any, *, depth: int = 0) -> Any:
    """A copy whose messages carry no provenance keys and whose text is valid UTF-8."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, BaseMessage):
        extra = {k: v for k, v in value.additional_kwargs.items() if k not in PROVENANCE_KEYS}
        return value.model_copy(
            update={"additional_kwargs": extra, "content": cleaned(value.content, depth=depth + 1)}
        )
    if depth > 100:
        raise InvalidRequestError("the input is nested more than 100 levels deep")
    if isinstance(value, Mapping):
        return {
            key: cleaned(item, depth=depth + 1) for key, item in value.items() if key not in PROVENANCE_KEYS
        }
    if isinstance(value, list | tuple):
        return [cleaned(item, depth=depth + 1) for item in value]
    return value


def _command(command: Mapping[str, Any]) -> Command[Any]:
    update, resume, goto = (cleaned(command.get(key)) for key in ("update", "resume", "goto"))
    return Command(update=update, resume=resume, goto=goto or ())
