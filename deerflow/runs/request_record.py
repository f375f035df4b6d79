"""A request as it is kept with its run, and the request of a run that is kept."""

from __future__ import annotations

from typing import Any

from deerflow.runs.record import RunRecord, utc_now
from deerflow.runs.request import GRAPH_ID, RunRequest
from deerflow.runs.serialize import to_json_value


def record_of(request: RunRequest, *, host_id: str) -> RunRecord:
    """What is kept of a run that a host admits: everything that another one needs to take it up."""
    kwargs = {
        "input": request.input,
        "command": request.command,
        "context": request.context,
        "config": request.config,
        "stream_mode": list(request.stream_modes),
        "stream_subgraphs": request.stream_subgraphs or None,
        "checkpoint_id": request.checkpoint_id,
        "interrupt_before": request.interrupt_before,
        "interrupt_after": request.interrupt_after,
        "durability": request.durability,
        "after_seconds": request.after_seconds or None,
        "temporary": request.temporary or None,
        "webhook": request.webhook,
    }
    ids = {"graph_id": GRAPH_ID, "assistant_id": request.assistant_id}
    return RunRecord(
        run_id=request.run_id,
        thread_id=request.thread_id,
        assistant_id=request.assistant_id,
        user_id=request.user_id,
        metadata=to_json_value(dict(request.metadata)) | ids,
        kwargs=to_json_value({key: value for key, value in kwargs.items() if value is not None}),
        multitask_strategy=request.multitask_strategy,
        host_id=host_id,
    )


def is_temporary(record: RunRecord) -> bool:
    """Whether the run's thread is removed with its end."""
    return bool(record.kwargs.get("temporary"))


def request_of(record: RunRecord) -> RunRequest:
    """The request that a run was admitted with; of a delay what is left."""
    kwargs: dict[str, Any] = record.kwargs
    passed_seconds = (utc_now() - record.created_at).total_seconds()
    return RunRequest(
        thread_id=record.thread_id,
        run_id=record.run_id,
        user_id=record.user_id,
        assistant_id=record.assistant_id,
        metadata=record.metadata,
        input=kwargs.get("input"),
        command=kwargs.get("command"),
        context=kwargs.get("context") or {},
        config=kwargs.get("config") or {},
        stream_modes=tuple(kwargs.get("stream_mode") or ()),
        stream_subgraphs=bool(kwargs.get("stream_subgraphs")),
        checkpoint_id=kwargs.get("checkpoint_id"),
        interrupt_before=kwargs.get("interrupt_before"),
        interrupt_after=kwargs.get("interrupt_after"),
        durability=kwargs.get("durability"),
        after_seconds=max(0.0, (kwargs.get("after_seconds") or 0.0) - passed_seconds),
        temporary=is_temporary(record),
        webhook=kwargs.get("webhook"),
    )
