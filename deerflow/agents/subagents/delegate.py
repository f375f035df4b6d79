"""The story of one delegation: admitted, started, watched, ended, reported."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

from deerflow_extension_api import TaskInfo, TaskOutcome
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables.config import var_child_runnable_config

from deerflow.agents.agent_spans import agent_start, ids_of, note_usage
from deerflow.agents.assembly import Assembly
from deerflow.agents.authorship import added_messages
from deerflow.agents.middlewares.run_limits import STOP_REASON_KEY
from deerflow.agents.run_scope import Delegations, RunScope, open_task_store, runtime_context
from deerflow.agents.subagents.capacity import SubagentCapacity
from deerflow.agents.subagents.catalogue import SubagentType
from deerflow.agents.text import shortened, valid_text
from deerflow.agents.tool_output.cutting import cut_text
from deerflow.cancellation import settled, stop_task, uninterrupted
from deerflow.errors import UnavailableError
from deerflow.extensions import LoadedExtensions
from deerflow.extensions.lifecycle import TaskHooks
from deerflow.tracing import Tracing, names

logger = logging.getLogger(__name__)

Status = Literal["completed", "failed", "cancelled", "timed_out"]

# How long a child that was told to stop may take before it is abandoned.
STOP_GRACE_SECONDS = 5.0
MAX_ERROR_CHARACTERS = 2000
MAX_TOLD_CHARACTERS = 50_000
"""How much of a result the event of its end shows; events are kept, and sent to every reader."""

_RECURSION_LIMIT = 100_000  # turns are bounded by RunLimits, whatever number of graph steps one takes

_OUTCOMES = {
    "completed": TaskOutcome.COMPLETED,
    "failed": TaskOutcome.FAILED,
    "cancelled": TaskOutcome.ABORTED,
    "timed_out": TaskOutcome.FAILED,
}


@dataclass(frozen=True)
class Delegation:
    """What an agent asks for: `emit` takes the progress events, `parent` is the scope that delegates."""

    prompt: str
    subagent_type: str
    description: str
    tool_call_id: str | None
    parent: RunScope
    emit: Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class DelegationResult:
    """How it ended. `text` is the subagent's answer where it has one."""

    status: Status
    text: str = ""
    stop_reason: str | None = None
    error: str | None = None
    model_name: str | None = None
    usage: dict[str, int] = field(default_factory=dict)


class SubagentAssembler(Protocol):
    """Builds (or finds) the graph of one subagent type for a generation of extensions."""

    async def subagent(
        self, snapshot: LoadedExtensions, kind: SubagentType, parent: RunScope
    ) -> Assembly: ...


@dataclass(frozen=True)
class Crew:
    """What delegating needs: the types on offer, the slots, and how to build one."""

    catalogue: Mapping[str, SubagentType]
    capacity: SubagentCapacity
    assembler: SubagentAssembler
    tracing: Tracing | None = None


@dataclass
class _Child:
    """One execution on its way. `answer` and `stop_reason` are filled in as messages arrive."""

    order: Delegation
    kind: SubagentType
    execution_id: str
    scope: RunScope
    hooks: TaskHooks
    answer: str = ""
    stop_reason: str | None = None
    model_name: str | None = None
    steps: int = 0
    over: bool = False
    # A stream writer finds its stream through the context it is called in: that of the delegating tool.
    caller_context: contextvars.Context = field(default_factory=contextvars.copy_context)

    def emit(self, event: str, **details: Any) -> dict[str, Any]:
        """Send one progress event, none after the end; a stream that is gone costs nothing of the work."""
        payload = {
            "type": event,
            "task_id": self.order.tool_call_id or self.scope.task_info.task_id,
            "execution_id": self.execution_id,
            "subagent_type": self.kind.name,
            **details,
        }
        try:
            if not self.over:
                self.caller_context.run(self.order.emit, payload)
        except Exception:
            logger.debug("event %s of subagent %s was not delivered", event, self.execution_id, exc_info=True)
        return payload


async def delegate(order: Delegation, crew: Crew) -> DelegationResult:
    """Run one subagent to its end. Every failure is a result; only the caller's cancellation is raised."""
    kind = crew.catalogue.get(order.subagent_type)
    if kind is None:
        known = ", ".join(sorted(crew.catalogue))
        return DelegationResult(
            "failed", error=f"unknown subagent_type {order.subagent_type!r}; known: {known}"
        )
    parent = order.parent
    if not parent.delegations.spend():
        limit = parent.delegations.limit
        return DelegationResult("failed", error=f"this run may delegate {limit} times, and has done so")
    try:
        async with crew.capacity.slot(parent.task_info.thread_id or parent.task_info.run_id):
            child = _child_of(order, kind)
            return await (_run(child, crew) if crew.tracing is None else _traced(child, crew, crew.tracing))
    except UnavailableError as error:
        parent.delegations.give_back()
        return DelegationResult("failed", error=str(error))


async def _traced(child: _Child, crew: Crew, tracing: Tracing) -> DelegationResult:
    with tracing.span(agent_start(child.kind.name, ids_of(child.scope))) as span:
        result = await _run(child, crew)
        note_usage(span, child.scope)
        span.set({names.STOP_REASON: result.stop_reason})
        if result.status != "completed":
            span.fail(result.status, result.error or "")
        return result


def _child_of(order: Delegation, kind: SubagentType) -> _Child:
    parent = order.parent
    task_id, execution_id = parent.delegations.claim_task_id(order.tool_call_id)
    info = TaskInfo(
        task_id=task_id,
        run_id=parent.task_info.run_id,
        thread_id=parent.task_info.thread_id,
        kind="subagent",
        parent_task_id=parent.task_info.task_id,
        agent_name=kind.name,
        resumed=parent.task_info.resumed,
    )
    scope = RunScope(
        snapshot=parent.snapshot,
        task_info=info,
        task_store=open_task_store(parent.snapshot, task_id),
        policy=parent.policy,
        options=parent.options,
        workspace=parent.workspace,
        delegations=Delegations(limit=0),
        user_id=parent.user_id,
    )
    return _Child(order, kind, execution_id, scope, TaskHooks(scope.snapshot, scope.task_store, info))


async def _run(child: _Child, crew: Crew) -> DelegationResult:
    started = child.emit("task_started", description=child.order.description)
    child.order.parent.subagent_starts[child.execution_id] = started
    result = DelegationResult("cancelled", error="the run was stopped")
    try:
        await child.hooks.start()
        result = await _watch(child, crew)
    except Exception as error:
        logger.exception("subagent %s could not be run", child.execution_id)
        result = DelegationResult("failed", error=_told(error))
    finally:
        # Also when this delegation is cancelled, even twice: hooks run, tokens are counted, the end is told.
        await uninterrupted(_finish(child, result), name=f"finish subagent {child.execution_id}")
    return result


async def _watch(child: _Child, crew: Crew) -> DelegationResult:
    """Wait for the conversation, its time limit or the caller's cancellation, whichever comes first."""
    context = contextvars.copy_context()
    # Without this the child's frames and callbacks would pass for the parent's.
    context.run(var_child_runnable_config.set, None)
    name = f"subagent {child.kind.name} {child.execution_id}"
    story = asyncio.create_task(_converse(child, crew), name=name, context=context)
    ended = True
    try:
        expired = not await settled(story, timeout_seconds=child.kind.limits.timeout_seconds)
    finally:
        if not story.done():
            stopping = stop_task(story, grace_seconds=STOP_GRACE_SECONDS)
            ended = await uninterrupted(stopping, name=f"stop {name}")
    return _timed_out(child, ended=ended) if expired else _result_of(child, story)


async def _converse(child: _Child, crew: Crew) -> None:
    assembly = await crew.assembler.subagent(child.scope.snapshot, child.kind, child.order.parent)
    child.model_name = assembly.model_name
    stream = assembly.graph.astream(
        {"messages": [HumanMessage(child.order.prompt)]},
        {"recursion_limit": _RECURSION_LIMIT, "run_name": child.kind.name},
        context=runtime_context({}, child.scope),
        stream_mode=["updates", "custom"],
    )
    # With several modes each part is two; langgraph's types know of one form only.
    async for mode, part in cast(AsyncIterator[tuple[str, Any]], stream):
        if mode == "custom":  # what a tool tells of itself
            child.emit("task_running", step=child.steps, custom=part)
            continue
        if "__interrupt__" in part:
            raise PermissionError("it asked for a person's answer, which a subagent cannot wait for")
        for node_update in part.values():
            _note(child, node_update)


def _note(child: _Child, node_update: Any) -> None:
    """Keep the latest answer and tell the parent's stream what was done."""
    for message in added_messages(node_update):
        if isinstance(message, AIMessage):
            stop_reason = message.response_metadata.get(STOP_REASON_KEY)
            if stop_reason is not None:
                child.stop_reason = stop_reason
                continue
            child.answer = message.text or child.answer
            child.steps += 1
            tools = [call["name"] for call in message.tool_calls]
            child.emit("task_running", step=child.steps, tools=tools, text=_first_line(message.text))
        elif isinstance(message, ToolMessage):
            child.emit("task_running", step=child.steps, tool=message.name, text=_first_line(message.text))


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:200]


def _told(failure: BaseException) -> str:
    return shortened(valid_text(f"{type(failure).__name__}: {failure}"), MAX_ERROR_CHARACTERS)


def _timed_out(child: _Child, *, ended: bool) -> DelegationResult:
    error = f"no result within {child.kind.limits.timeout_seconds:g} s"
    if not ended:
        error += "; it ignored its cancellation and may still be at work"
    return _result(child, "timed_out", error)


def _result_of(child: _Child, story: asyncio.Task[None]) -> DelegationResult:
    if story.cancelled():
        return _result(child, "failed", "it cancelled itself")
    failure = story.exception()
    return _result(child, "completed") if failure is None else _result(child, "failed", _told(failure))


def _result(child: _Child, status: Status, error: str | None = None) -> DelegationResult:
    usage = child.scope.usage.as_dict()
    return DelegationResult(status, child.answer, child.stop_reason, error, child.model_name, usage)


async def _finish(child: _Child, result: DelegationResult) -> None:
    scope = child.scope
    await child.hooks.stop(_OUTCOMES[result.status])
    child.order.parent.usage.add(scope.usage.as_dict())
    details: dict[str, Any] = {"usage": scope.usage.as_dict()}
    if result.error is not None:
        details["error"] = result.error
    if result.status == "completed":
        details["result"] = cut_text(
            result.text, MAX_TOLD_CHARACTERS, "they are in the result of the tool call"
        )
    child.order.parent.subagent_ends.append(child.emit(f"task_{result.status}", **details))
    child.over = True
