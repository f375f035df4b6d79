"""How a run goes on whose host has died: from its last checkpoint, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.constants import START
from langgraph.types import StateSnapshot

from deerflow.agents.assembly import Assembly
from deerflow.agents.authorship import is_from_person, is_summary
from deerflow.config.request import RequestOptions, parse_request_options
from deerflow.errors import InvalidRequestError
from deerflow.runs.active import ActiveRun
from deerflow.runs.graph_input import GraphInput, first_input, graph_config_of
from deerflow.runs.parts import RunParts
from deerflow.runs.record import HostLostError, RunRecord
from deerflow.runs.request import RunRequest
from deerflow.runs.request_record import request_of

MAX_ATTEMPTS: Final = 3
"""How often a run is begun: one that brings its host down must not bring down all of them."""

EVENTS_READ: Final = 1_000


@dataclass(frozen=True)
class Recovered:
    """What could be made of a record; `obstacle` says why the run cannot go on, where it cannot."""

    request: RunRequest
    options: RequestOptions
    obstacle: str | None = None


def recover(record: RunRecord, parts: RunParts) -> Recovered:
    """The request of a recorded run, checked against this host's configuration."""
    try:
        request = request_of(record)
        options = parse_request_options(request.context, parts.config)
    except (InvalidRequestError, TypeError, ValueError, AttributeError) as error:
        bare = RunRequest(record.thread_id, run_id=record.run_id, user_id=record.user_id)
        return Recovered(bare, RequestOptions(), f"its request does not suit this host: {error}")
    if record.attempt > MAX_ATTEMPTS:
        return Recovered(request, options, f"it was begun {MAX_ATTEMPTS} times, and never came to its end")
    return Recovered(request, options)


async def check_can_go_on(run: ActiveRun, parts: RunParts) -> None:
    """Raise `HostLostError` where a run that was under way on a dead host has nothing to go on from."""
    if run.obstacle is not None:
        raise HostLostError(run.run_id, run.obstacle)
    if run.was_under_way and not await _left_checkpoint(run, parts) and not _may_repeat(run.request):
        raise HostLostError(run.run_id, "it had left no checkpoint yet")


async def input_to_go_on(run: ActiveRun, assembly: Assembly, parts: RunParts) -> GraphInput | None:
    """What the graph of such a run starts from; `None` where the run is to wait for a person."""
    config = graph_config_of(run, parts.config)
    newest = await assembly.graph.aget_state(config)
    # By its id: the newest state includes what tasks wrote after it, which the graph tells of once more.
    head = await assembly.graph.aget_state(newest.config)
    if (head.metadata or {}).get("run_id") != run.run_id:
        return first_input(run, parts.config)
    run.values = head.values
    await _note_missing_messages(run, head, assembly, parts)
    if await _is_at_breakpoint(run.request, head, assembly):
        return None
    return GraphInput(None, config)


async def _left_checkpoint(run: ActiveRun, parts: RunParts) -> bool:
    if parts.checkpointer is None:
        return False
    place: RunnableConfig = {"configurable": {"thread_id": run.thread_id, "checkpoint_ns": ""}}
    head = await parts.checkpointer.aget_tuple(place)
    return head is not None and head.metadata.get("run_id") == run.run_id


def _may_repeat(request: RunRequest) -> bool:
    """Whether a run that only goes on from an earlier run's checkpoint can simply do so again.

    What its steps wrote there is found again, and an answer takes the place of itself.
    """
    if request.input is not None or request.durability == "exit":
        return False
    command = request.command or {}
    return command.get("update") is None and command.get("goto") is None


async def _is_at_breakpoint(request: RunRequest, head: StateSnapshot, assembly: Assembly) -> bool:
    """Whether the graph came to a place where it was to stop; going on would pass it unasked."""
    if not head.next:
        return False
    if _names_any(request.interrupt_before, head.next):
        return True
    if not request.interrupt_after or head.parent_config is None:
        return False
    if (head.metadata or {}).get("source") == "input":
        return False
    parent = await assembly.graph.aget_state(head.parent_config)
    return _names_any(request.interrupt_after, parent.next)


def _names_any(nodes: Sequence[str] | Literal["*"] | None, candidates: Sequence[str]) -> bool:
    visible = [name for name in candidates if not name.startswith("__")]
    return bool(visible) if nodes == "*" else any(name in (nodes or ()) for name in visible)


async def _note_missing_messages(
    run: ActiveRun, head: StateSnapshot, assembly: Assembly, parts: RunParts
) -> None:
    """Keep the messages of the run that its state holds and its events lack: those of the last moment."""
    known = await _message_ids_before(run, head, assembly) | await _recorded_ids(run, parts)
    if (head.metadata or {}).get("source") == "input":
        run.recorder.note_input(await _pending_input(head, parts), known)
    for message in head.values.get("messages") or ():
        if isinstance(message, BaseMessage) and message.id not in known and _was_said(message):
            run.recorder.note(f"message.{message.type}", "message", message)


async def _pending_input(head: StateSnapshot, parts: RunParts) -> Any:
    """The input in a checkpoint that was written before any step took it."""
    if parts.checkpointer is None:
        return None
    found = await parts.checkpointer.aget_tuple(head.config)
    return None if found is None else found.checkpoint["channel_values"].get(START)


def _was_said(message: BaseMessage) -> bool:
    return is_from_person(message) if isinstance(message, HumanMessage) else not is_summary(message)


async def _message_ids_before(run: ActiveRun, head: StateSnapshot, assembly: Assembly) -> set[str | None]:
    place: RunnableConfig = {"configurable": {"thread_id": run.thread_id, "checkpoint_ns": ""}}
    async for state in assembly.graph.aget_state_history(place):
        if (state.metadata or {}).get("run_id") != run.run_id:
            return {message.id for message in state.values.get("messages") or ()}
    return set()


async def _recorded_ids(run: ActiveRun, parts: RunParts) -> set[Any]:
    ids: set[Any] = set()
    after_seq: int | None = None
    while True:
        page = await parts.stores.events.list(
            run.thread_id, run.run_id, after_seq=after_seq, limit=EVENTS_READ
        )
        contents = [kept.event.content for kept in page if kept.event.category == "message"]
        ids |= {content.get("id") for content in contents if isinstance(content, dict)}
        if len(page) < EVENTS_READ:
            return ids
        after_seq = page[-1].seq
