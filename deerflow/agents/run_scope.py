"""The one value that travels with a run: under a host-internal key of its runtime context.

A caller can write any key there, so presence proves nothing: the value is accepted only when it is an
instance of `RunScope`, which JSON cannot make, and keys that begin with `__` are removed from what callers
send before the host writes its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from uuid import uuid4

from deerflow_extension_api import EXTENSION_TASK_STORE_KEY, ExtensionData, HostPolicySnapshot, TaskInfo

from deerflow.agents.usage import UsageMeter
from deerflow.agents.workspace import Workspace
from deerflow.config.request import RequestOptions
from deerflow.extensions import LoadedExtensions

RUN_SCOPE_KEY = "__deerflow_run_scope"


@dataclass
class Delegations:
    """What one run has delegated so far; safe from parallel tool calls."""

    limit: int
    started: int = 0
    _used_task_ids: set[str] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def spend(self) -> bool:
        """Count one more delegation; whether the run's total allowed it."""
        with self._lock:
            if self.started >= self.limit:
                return False
            self.started += 1
            return True

    def give_back(self) -> None:
        """Count one less: what was spent for it has not begun."""
        with self._lock:
            self.started -= 1

    def claim_task_id(self, tool_call_id: str | None) -> tuple[str, str]:
        """`(task id, execution id)`: the tool-call id, or the execution id where that is missing or taken."""
        execution_id = str(uuid4())
        with self._lock:
            taken = not tool_call_id or tool_call_id in self._used_task_ids
            task_id = execution_id if taken else str(tool_call_id)
            self._used_task_ids.add(task_id)
        return task_id, execution_id


@dataclass(frozen=True, eq=False)
class RunScope:
    """Everything that one agent execution (a lead run or a subagent) needs to know of itself.

    `memory` is what is known about the user, as a block for the system prompt.
    """

    snapshot: LoadedExtensions
    task_info: TaskInfo
    task_store: ExtensionData | None
    policy: HostPolicySnapshot
    options: RequestOptions
    workspace: Workspace
    delegations: Delegations
    user_id: str | None = None
    memory: str = ""
    usage: UsageMeter = field(default_factory=UsageMeter)
    # How its subagents ended, and by execution id how they began, as events: where the run is stopped, its
    # stream ends before they do.
    subagent_ends: list[dict[str, Any]] = field(default_factory=list)
    subagent_starts: dict[str, dict[str, Any]] = field(default_factory=dict)


def open_task_store(snapshot: LoadedExtensions, task_id: str) -> ExtensionData | None:
    """A store for one task, or None where no registered contribution can use one."""
    return ExtensionData(task_id) if snapshot.needs_task_store else None


def runtime_context(caller: Mapping[str, Any], scope: RunScope) -> dict[str, Any]:
    """The runtime context of a run: the caller's keys first, the host's on top."""
    context = {key: value for key, value in caller.items() if not str(key).startswith("__")}
    context["thread_id"] = scope.task_info.thread_id
    context["run_id"] = scope.task_info.run_id
    context["user_id"] = scope.user_id
    context[RUN_SCOPE_KEY] = scope
    if scope.task_store is not None:
        context[EXTENSION_TASK_STORE_KEY] = scope.task_store
    return context


def scope_from_runtime(runtime: Any) -> RunScope | None:
    """The scope of the run that `runtime` (LangGraph's, or a tool's) belongs to; None without a live one."""
    context = getattr(runtime, "context", None)
    if not isinstance(context, Mapping):
        return None
    scope = context.get(RUN_SCOPE_KEY)
    return scope if isinstance(scope, RunScope) else None
