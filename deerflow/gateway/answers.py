"""What routes answer, for the OpenAPI document."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Literal, NotRequired, Required
from uuid import UUID

from typing_extensions import TypedDict

from deerflow.runs.record import RunStatus, ThreadStatus
from deerflow.runs.thread_ttl import TtlStrategy

Json = dict[str, Any]
Answers = dict[int | str, Json]

EVENT_STREAM: Final[Json] = {"text/event-stream": {"schema": {"type": "string"}}}
ANY_BYTES: Final[Json] = {"*/*": {"schema": {"type": "string", "format": "binary"}}}
ANY_JSON: Final[Json] = {"application/json": {"schema": {}}}


class Ok(TypedDict):
    """The server answers."""

    ok: bool


class Health(TypedDict):
    """All is well; otherwise the status is 503."""

    status: str


class Info(TypedDict):
    """What the server is."""

    version: str
    langgraph_py_version: str
    flags: dict[str, bool]
    host: Json


class StoredFile(TypedDict):
    """Where a file was put."""

    path: str


class FileEntry(TypedDict):
    """A file of a thread."""

    path: str
    size_bytes: int


class FileList(TypedDict):
    """The files of a thread; `is_complete` is false where there are more than are listed."""

    files: list[FileEntry]
    is_complete: bool
    max_bytes: int


class Error(TypedDict):
    """Every error of the host's: what is wrong, and where."""

    detail: str


class Interrupt(TypedDict):
    """What a run asks of a person."""

    id: str
    value: Any


class Ttl(TypedDict):
    """When a thread expires unless it is changed before, and what is done with it then."""

    strategy: TtlStrategy
    ttl_minutes: float
    expires_at: datetime


class Thread(TypedDict):
    """A conversation. `values` is null until a run has left a state; `interrupts` stand by task; `ttl` comes
    where it was asked for, and the thread has one."""

    thread_id: UUID
    created_at: datetime
    updated_at: datetime
    state_updated_at: datetime
    metadata: Json
    config: Json
    status: ThreadStatus
    values: Json | None
    interrupts: dict[str, list[Interrupt]]
    ttl: NotRequired[Ttl]


class Run(TypedDict):
    """One run. `cancel_reason` and `error` say why it ended before its end."""

    run_id: UUID
    thread_id: UUID
    assistant_id: UUID
    created_at: datetime
    updated_at: datetime
    status: RunStatus
    metadata: Json
    kwargs: Json
    multitask_strategy: str
    cancel_reason: str | None
    error: str | None


class Checkpoint(TypedDict):
    """A point in a thread's history."""

    thread_id: UUID
    checkpoint_ns: str
    checkpoint_id: UUID


class ThreadState(TypedDict):
    """The state of a thread at one checkpoint; nulls before the first run."""

    values: Json
    next: list[str]
    tasks: list[Json]
    metadata: Json | None
    created_at: datetime | None
    checkpoint: Checkpoint | None
    parent_checkpoint: Checkpoint | None
    interrupts: list[Interrupt]
    checkpoint_id: UUID | None
    parent_checkpoint_id: UUID | None


class StateChange(TypedDict):
    """Where a changed state stands."""

    checkpoint: Checkpoint | None
    configurable: Checkpoint | None
    checkpoint_id: UUID | None


class Assistant(TypedDict):
    """A graph with the wishes that its runs begin with."""

    assistant_id: UUID
    graph_id: str
    name: str
    description: str | None
    config: Json
    context: Json
    metadata: Json
    version: int
    created_at: datetime
    updated_at: datetime


class GraphDrawing(TypedDict):
    """The nodes and edges of a graph."""

    nodes: list[Json]
    edges: list[Json]


class GraphSchemas(TypedDict):
    """The JSON schemas of a graph; null for one that cannot be made."""

    graph_id: str
    input_schema: Json | None
    output_schema: Json | None
    state_schema: Json | None
    config_schema: Json | None
    context_schema: Json | None


class Item(TypedDict):
    """An item of the store."""

    namespace: list[str]
    key: str
    value: Json
    created_at: datetime
    updated_at: datetime


class FoundItem(Item):
    """An item that a search found; `score` has a meaning only for searches by meaning."""

    score: float | None


class FoundItems(TypedDict):
    """The items that a search found."""

    items: list[FoundItem]


class Namespaces(TypedDict):
    """Namespaces of the store."""

    namespaces: list[list[str]]


class Pruned(TypedDict):
    """How many threads were pruned."""

    pruned_count: int


class Me(TypedDict):
    """Who is calling."""

    username: str
    is_admin: bool
    roles: list[str]


class Session(TypedDict):
    """Who has logged in, and what state-changing requests repeat."""

    username: str
    csrf_token: str


class CommandAnswer(TypedDict, total=False):
    """A command of the streaming protocol that was carried out, or why it was not (`error` is a code)."""

    type: Required[Literal["success", "error"]]
    id: Required[int]
    result: Json
    meta: Json
    error: str
    message: str


# With `select`, clients get the fields alone that they named.
ThreadPart = TypedDict("ThreadPart", {**Thread.__annotations__, "extracted": Json}, total=False)  # type: ignore[misc]
RunPart = TypedDict("RunPart", Run.__annotations__, total=False)  # type: ignore[misc]
StatePart = TypedDict("StatePart", ThreadState.__annotations__, total=False)  # type: ignore[misc]
AssistantPart = TypedDict("AssistantPart", Assistant.__annotations__, total=False)  # type: ignore[misc]

TEXT: Final[Json] = {"text/plain": {"schema": {"type": "string"}}}
METRICS: Final[Answers] = {200: {"description": "All numbers.", "content": TEXT}}
FILE: Final[Answers] = {200: {"description": "The file.", "content": ANY_BYTES}}
STORED: Final[Answers] = {201: {"model": StoredFile}}
ACCEPTED: Final[Answers] = {202: {"description": "The run was asked to stop."}}
MERGED: Final[Answers] = {204: {"description": "Merged."}}
_ERRORS: Final[dict[int, str]] = {
    400: "Parts of the request contradict each other.",
    401: "Not known here.",
    403: "Not for this caller.",
    404: "There is no such thing, or not for this caller.",
    409: "The state of things does not allow it.",
    408: "The body stopped coming.",
    415: "The body is of a kind that is not taken.",
    429: "Too many tries; `Retry-After` says when to try again.",
}


def answers(model: Any, *errors: int, headers: tuple[str, ...] = ()) -> Answers:
    """A JSON answer of the shape of `model`, with response headers, and errors."""
    good: Json = {"model": model}
    if headers:
        good["headers"] = {name: {"schema": {"type": "string"}} for name in headers}
    return {200: good} | failures(*errors)


def streamed(content: Json, *errors: int) -> Answers:
    """An answer that comes piece by piece, and says where the run is."""
    named = {name: {"schema": {"type": "string"}} for name in ("Location", "Content-Location")}
    return {200: {"description": "As it comes.", "content": content, "headers": named}} | failures(*errors)


def failures(*statuses: int) -> Answers:
    """Errors that a route has beside those that every route has."""
    return {status: {"model": Error, "description": _ERRORS[status]} for status in statuses}
