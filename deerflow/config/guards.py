"""What keeps agents and their tools within bounds beside token budgets; off until something is named."""

from __future__ import annotations

from pydantic import Field

from deerflow.config.fields import Count, Flag, OptionalInt, PositiveInt, Seconds, Section, Text


class ToolRetryConfig(Section):
    """Tools that may be called again when they fail: exponential delay with jitter."""

    tools: tuple[Text, ...] = ()
    max_retries: Count = 2
    initial_delay_seconds: Seconds = 0.5


class GuardsConfig(Section):
    """Limits of one execution, a lead's run or a subagent's, and a to-do list for the lead."""

    max_model_calls: OptionalInt = None
    max_tool_calls: OptionalInt = None
    max_calls_of_tool: dict[Text, PositiveInt] = Field(default_factory=dict)
    tool_retry: ToolRetryConfig = ToolRetryConfig()
    todo_list: Flag = False
