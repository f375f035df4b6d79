"""What clients send about threads and their states."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from langgraph.types import StateUpdate
from pydantic import BaseModel, ConfigDict, Field, model_validator

from deerflow.gateway.bodies.runs import CheckpointBody
from deerflow.gateway.pages import Limit, Offset
from deerflow.gateway.selection import Extract
from deerflow.runs.record import ThreadStatus
from deerflow.runs.thread_ttl import MAX_TTL_MINUTES, ThreadTtl, TtlStrategy

Object = dict[str, Any]


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore")


class UpdateBody(_Body):
    """One change of the state, as if a node had made it."""

    values: Any = None
    as_node: str


class SuperstepBody(_Body):
    """Changes that belong to one step of the graph."""

    updates: Annotated[list[UpdateBody], Field(min_length=1)]

    def state_updates(self) -> list[StateUpdate]:
        """The changes in LangGraph's form."""
        return [StateUpdate(update.values, update.as_node) for update in self.updates]


class TtlBody(_Body):
    """After how many minutes without a change a thread expires, and what is done then; a number alone is the
    minutes."""

    ttl: Annotated[float, Field(gt=0, le=MAX_TTL_MINUTES, strict=True, allow_inf_nan=False)]
    strategy: TtlStrategy | None = None

    @model_validator(mode="before")
    @classmethod
    def _wrapped(cls, value: Any) -> Any:
        return {"ttl": value} if isinstance(value, int | float) else value

    def thread_ttl(self) -> ThreadTtl:
        """The same in the host's form."""
        return ThreadTtl(self.ttl, self.strategy or "delete")


class _Lasting(_Body):
    ttl: TtlBody | None = None

    def thread_ttl(self) -> ThreadTtl | None:
        """How long the thread is to last; None: nothing was said of it."""
        return None if self.ttl is None else self.ttl.thread_ttl()


class ThreadBody(_Lasting):
    """A new thread."""

    thread_id: str | None = None
    metadata: Object | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None
    supersteps: Annotated[list[SuperstepBody], Field(max_length=1000)] | None = None


class ThreadPatchBody(_Lasting):
    """Metadata to be merged into a thread's, and how long it is to last from now on."""

    metadata: Object | None = None


class ThreadFilterBody(_Body):
    """Which threads are meant."""

    metadata: Object | None = None
    status: ThreadStatus | None = None
    values: Object | None = None


class ThreadSearchBody(ThreadFilterBody):
    """Which threads to list, in which order, and how much of them."""

    ids: Annotated[list[str], Field(max_length=1000)] | None = None
    limit: Limit = 10
    offset: Offset = 0
    sort_by: Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"] | None = None
    sort_order: Literal["asc", "desc"] | None = None
    select: list[str] | None = None
    extract: Extract | None = None


class PruneBody(_Body):
    """Threads to be removed, or of whose history only the newest state is to be kept."""

    thread_ids: Annotated[list[str], Field(max_length=1000)]
    strategy: Literal["delete", "keep_latest"] = "delete"


class StateAtBody(_Body):
    """Which state to read."""

    checkpoint: CheckpointBody
    subgraphs: bool | None = None
    select: list[str] | None = None


class StateUpdateBody(_Body):
    """A change of the newest state, or of the one at a checkpoint."""

    values: Object | list[Any] | None = None
    as_node: str | None = None
    checkpoint: CheckpointBody | None = None
    checkpoint_id: str | None = None


class HistoryBody(_Body):
    """Which states to list."""

    limit: Limit = 10
    before: str | CheckpointBody | None = None
    metadata: Object | None = None
    checkpoint: CheckpointBody | None = None
    select: list[str] | None = None
