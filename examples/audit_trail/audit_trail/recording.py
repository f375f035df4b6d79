"""What is recorded: starts and stops of tasks, calls of tools, and the host's own model calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Any

from deerflow_extension_api import (
    AgentBuildContext,
    ExtensionData,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
    SystemModelCallObserver,
    SystemModelRequest,
    SystemModelResult,
    SystemOperationKind,
    TaskInfo,
    TaskLifecycleContributor,
    TaskOutcome,
    canonical_hash,
    task_store_from_runtime,
)
from langchain.agents.middleware import AgentMiddleware, ToolCallRequest

from audit_trail.subject import Subject, subject_in
from audit_trail.trail import Trail


class TaskEntries(TaskLifecycleContributor):
    """`task_started` and `task_stopped`. A stopped task's entries are stored before its stream ends."""

    async def on_task_start(
        self, app_store: ExtensionData, task_store: ExtensionData, info: TaskInfo
    ) -> None:
        subject = Subject.of(info)
        task_store.set(subject)
        trail = app_store.get(Trail)
        if trail is not None:
            detail = {"agent": info.agent_name, "parent": info.parent_task_id, "resumed": info.resumed}
            trail.record("task_started", subject, kind=info.kind, **detail)

    async def on_task_stop(
        self, app_store: ExtensionData, task_store: ExtensionData, info: TaskInfo, outcome: TaskOutcome
    ) -> None:
        trail = app_store.get(Trail)
        if trail is not None:
            trail.record("task_stopped", Subject.of(info), kind=info.kind, outcome=outcome.value)
            await trail.flush()


class ToolCallEntries(MiddlewareContributor):
    """`tool_called` and `tool_returned` of every agent, as the model sees them."""

    def __init__(self, *, full_arguments: bool) -> None:
        self._full_arguments = full_arguments

    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        recorder = RecordToolCalls(app_store, full_arguments=self._full_arguments)
        # Outermost: what is recorded is what enters the conversation.
        return (MiddlewarePlacement(recorder, Placement.TOOL_VISIBLE, order=-1000),)


class RecordToolCalls(AgentMiddleware[Any, Any]):
    """Records each call before it is made, and how it ended."""

    def __init__(self, app_store: ExtensionData, *, full_arguments: bool) -> None:
        super().__init__()
        self._app_store = app_store
        self._full_arguments = full_arguments

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        ended = self._began(request)
        try:
            result = handler(request)
        except BaseException as error:
            ended(error)
            raise
        ended(result)
        return result

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        ended = self._began(request)
        try:
            result = await handler(request)
        except BaseException as error:
            ended(error)
            raise
        ended(result)
        return result

    def _began(self, request: ToolCallRequest) -> Callable[[Any], None]:
        """Record the call, and return what records its end."""
        trail = self._app_store.get(Trail)
        if trail is None:
            return lambda result: None
        call, began = request.tool_call, monotonic()
        subject = subject_in(task_store_from_runtime(request.runtime))
        named = {"tool": call["name"], "call": call["id"]}
        trail.record("tool_called", subject, **named, **self._facts(request))

        def ended(result: Any) -> None:
            seconds = round(monotonic() - began, 3)
            trail.record("tool_returned", subject, **named, seconds=seconds, **_ending(result))

        return ended

    def _facts(self, request: ToolCallRequest) -> dict[str, Any]:
        arguments = request.tool_call["args"]
        context = request.runtime.context
        user = context.get("user_id") if isinstance(context, dict) else None
        if self._full_arguments:
            return {"user": user, "arguments": arguments}
        return {"user": user, "arguments_hash": _hash(arguments)}


class SystemCallEntries(SystemModelCallObserver):
    """`system_model_call`: titles, summaries, goals and memory."""

    async def on_system_model_call(
        self,
        app_store: ExtensionData,
        task_store: ExtensionData,
        kind: SystemOperationKind,
        request: SystemModelRequest,
        result: SystemModelResult,
    ) -> None:
        trail = app_store.get(Trail)
        if trail is not None:
            trail.record(
                "system_model_call",
                subject_in(task_store),
                kind=kind.value,
                model=request.model_name,
                messages=len(request.messages),
                milliseconds=None if result.duration_ms is None else round(result.duration_ms, 1),
                error=None if result.error is None else type(result.error).__name__,
            )


def _ending(result: Any) -> dict[str, Any]:
    if isinstance(result, BaseException):
        return {"status": "raised", "error": type(result).__name__}
    content = getattr(result, "content", None)
    if content is None:  # a Command, which changes the state of the graph
        return {"status": "success", "result": type(result).__name__}
    return {"status": getattr(result, "status", "success"), "content_hash": _hash(content)}


def _hash(value: Any) -> str:
    try:
        return canonical_hash(value)
    except (TypeError, ValueError):  # JSON cannot hold it
        return canonical_hash(repr(value))
