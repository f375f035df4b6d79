"""A scope for a graph that runs without the host around it: anyone's own `langgraph.json` or script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from deerflow_extension_api import TaskInfo
from langchain_core.messages import HumanMessage, ToolMessage

from deerflow.agents.run_scope import Delegations, RunScope, scope_from_runtime
from deerflow.agents.workspace import Workspace
from deerflow.config.request import RequestOptions
from deerflow.config.schema import AppConfig
from deerflow.extensions import LoadedExtensions
from deerflow.extensions.policy import lead_policy


class ScopeFinder:
    """Finds the scope of a runtime; where no host wrote one, makes one from the graph's own configuration."""

    def __init__(self, config: AppConfig, snapshot: LoadedExtensions) -> None:
        self._config = config
        self._snapshot = snapshot

    def scope_of(self, runtime: Any) -> RunScope:
        """The scope to delegate from. Without a host, task hooks have no store and no parent's hooks."""
        return scope_from_runtime(runtime) or self._made_for(runtime)

    def workspace_of(self, runtime: Any) -> Workspace:
        """The workspace of the conversation that `runtime` belongs to."""
        return self.scope_of(runtime).workspace

    def _made_for(self, runtime: Any) -> RunScope:
        config = getattr(runtime, "config", None)
        configurable = config.get("configurable", {}) if isinstance(config, Mapping) else {}
        thread_id = str(configurable.get("thread_id") or "scratch")
        run_id = str(configurable.get("run_id") or uuid4())
        delegations = Delegations(self._config.subagents.max_total_per_run)
        delegations.started = _delegated_this_turn(getattr(runtime, "state", None))
        return RunScope(
            snapshot=self._snapshot,
            task_info=TaskInfo(task_id=run_id, run_id=run_id, thread_id=thread_id, kind="lead"),
            task_store=None,
            policy=lead_policy(self._config),
            options=RequestOptions(),
            workspace=Workspace(self._config.workspace_path(thread_id)),
            delegations=delegations,
        )


def _delegated_this_turn(state: Any) -> int:
    messages = state.get("messages", []) if isinstance(state, Mapping) else []
    count = 0
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            break
        # A call that was refused has begun nothing, and says nothing of what it used.
        if isinstance(message, ToolMessage) and "subagent_token_usage" in message.additional_kwargs:
            count += 1
    return count
