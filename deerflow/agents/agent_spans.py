"""The span of one agent execution: of a lead's run, or of a subagent."""

from __future__ import annotations

from deerflow.agents.run_scope import RunScope
from deerflow.tracing import Span, SpanStart, names
from deerflow.tracing.chat import usage_attributes
from deerflow.tracing.interface import Attributes


def agent_start(agent_name: str, further: Attributes) -> SpanStart:
    """The beginning of an execution of this agent."""
    attributes = {names.OPERATION: "invoke_agent", names.AGENT_NAME: agent_name}
    return SpanStart(f"invoke_agent {agent_name}", {**attributes, **further})


def ids_of(scope: RunScope) -> Attributes:
    """Whose execution it is."""
    info = scope.task_info
    return {names.CONVERSATION_ID: info.thread_id, names.RUN_ID: info.run_id, names.TASK_ID: info.task_id}


def note_usage(span: Span, scope: RunScope) -> None:
    """Record the tokens of the execution, those of its subagents included."""
    span.set(usage_attributes(scope.usage.as_dict()))
