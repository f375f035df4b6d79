"""Threads, runs and states as LangGraph's clients expect them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.types import Interrupt, PregelTask, StateSnapshot

from deerflow.runs.ending import was_stopped
from deerflow.runs.record import RunRecord, RunStatus, ThreadRecord
from deerflow.runs.request import ASSISTANT_ID, GRAPH_ID
from deerflow.runs.thread_ttl import ThreadExpiry

Json = dict[str, Any]


def thread_json(thread: ThreadRecord, state: StateSnapshot | None = None) -> Json:
    """A thread; `values` is null until a run has left a state."""
    return {
        "thread_id": thread.thread_id,
        "created_at": thread.created_at,
        "updated_at": thread.updated_at,
        "state_updated_at": thread.state_updated_at or thread.updated_at,
        "metadata": thread.metadata,
        "config": thread.config,
        "status": thread.status,
        "values": state.values if state is not None and state.created_at is not None else None,
        "interrupts": {} if state is None else _interrupts_by_task(state),
    }


def ttl_json(expiry: ThreadExpiry) -> Json:
    """How long a thread lasts."""
    return {
        "strategy": expiry.ttl.strategy,
        "ttl_minutes": expiry.ttl.minutes,
        "expires_at": expiry.expires_at,
    }


def run_json(run: RunRecord) -> Json:
    """A run."""
    return {
        "run_id": run.run_id,
        "thread_id": run.thread_id,
        "assistant_id": ASSISTANT_ID if run.assistant_id == GRAPH_ID else run.assistant_id,
        "created_at": run.created_at,
        "updated_at": run.updated_at,
        "status": run.status,
        "metadata": run.metadata,
        "kwargs": run.kwargs,
        "multitask_strategy": run.multitask_strategy,
        "cancel_reason": run.stop_reason if was_stopped(run.status, run.stop_reason) else None,
        "error": run.error,
    }


def new_run_json(run: RunRecord) -> Json:
    """A run as it was asked for: `pending`, as LangGraph's server answers also where it begins at once."""
    return {**run_json(run), "status": RunStatus.PENDING}


def state_json(state: StateSnapshot) -> Json:
    """The state of a thread at one checkpoint."""
    checkpoint = checkpoint_json(state.config)
    parent = checkpoint_json(state.parent_config)
    return {
        "values": state.values,
        "next": list(state.next),
        "tasks": [_task_json(task) for task in state.tasks],
        "metadata": None if state.metadata is None else _public_metadata(state.metadata),
        "created_at": state.created_at,
        "checkpoint": checkpoint,
        "parent_checkpoint": parent,
        "interrupts": [interrupt_json(interrupt) for interrupt in state.interrupts],
        "checkpoint_id": checkpoint and checkpoint["checkpoint_id"],
        "parent_checkpoint_id": parent and parent["checkpoint_id"],
    }


def checkpoint_json(config: RunnableConfig | None) -> Json | None:
    """The checkpoint that a config points to; null where there is none."""
    configurable: Mapping[str, Any] = (config or {}).get("configurable") or {}
    if not configurable.get("checkpoint_id"):
        return None
    return {
        "checkpoint_id": configurable["checkpoint_id"],
        "thread_id": configurable["thread_id"],
        "checkpoint_ns": configurable.get("checkpoint_ns") or "",
    }


def interrupt_json(interrupt: Interrupt) -> Json:
    """What a run asks of a person."""
    return {"id": interrupt.id, "value": interrupt.value}


def _task_json(task: PregelTask) -> Json:
    state = task.state
    return {
        "id": task.id,
        "name": task.name,
        "path": task.path,
        "error": _error_text(task),
        "interrupts": [interrupt_json(interrupt) for interrupt in task.interrupts],
        "checkpoint": state.get("configurable") if isinstance(state, dict) else None,
        "state": state_json(state) if isinstance(state, StateSnapshot) else None,
        "result": task.result,
    }


def _error_text(task: PregelTask) -> str | None:
    """What went wrong; that a step was stopped is no error."""
    text = "" if task.error is None else str(task.error)
    return None if text.startswith("CancelledError(") else text or None


def _interrupts_by_task(state: StateSnapshot) -> Json:
    return {
        task.id: [interrupt_json(interrupt) for interrupt in task.interrupts]
        for task in state.tasks
        if task.interrupts
    }


def _public_metadata(metadata: Mapping[str, Any]) -> Json:
    return {key: value for key, value in metadata.items() if not key.startswith("__")}
