"""How deep agents and Jobs stand inside each other.

A person's chat runs at depth 0 and calls Jobs at depth 1; a chat that such a Job holds runs at depth 1.
A subagent stands one deeper than its lead.
"""

from __future__ import annotations

from contextvars import ContextVar

from deerflow.agents.run_scope import RunScope

# The client's public face has no place for the depth. A context variable follows a chat through tasks and
# event loops to its tools, as AxonX's own record of the work that calls belong to does.
chat_depth: ContextVar[int] = ContextVar("deerflow_axonx_chat_depth", default=0)


def job_depth(scope: RunScope | None) -> int:
    """The `agent_depth` for a Job that the agent of `scope` calls, here and now."""
    is_subagent = scope is not None and scope.task_info.kind == "subagent"
    return chat_depth.get() + (2 if is_subagent else 1)
