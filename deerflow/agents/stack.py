"""The middlewares of an agent as one visible list, outermost first.

Contributions stand on the line of their placement. For wrap hooks and `before_*` hooks the order is from
top to bottom, for `after_*` hooks from bottom to top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain.agents.middleware import (
    AgentMiddleware,
    ModelRetryMiddleware,
)

from deerflow.agents.file_tools import WorkspaceFinder
from deerflow.agents.guards import tool_guards
from deerflow.agents.middlewares.approval_refusal import ApprovalRefusal
from deerflow.agents.middlewares.approvals import Approvals
from deerflow.agents.middlewares.run_limits import RunLimits
from deerflow.agents.middlewares.transcript_repair import TranscriptRepair
from deerflow.agents.tool_output import ToolFailures, ToolOutputLimit
from deerflow.config.limits import TokenBudgetConfig
from deerflow.config.schema import AppConfig
from deerflow.extensions.placement import Placements, check_stack_order
from deerflow.models import is_transient

Middleware = AgentMiddleware[Any, Any]


@dataclass(frozen=True)
class StackPlan:
    """What differs between the stacks of a lead and of a subagent."""

    config: AppConfig
    placements: Placements
    budget: TokenBudgetConfig
    max_turns: int | None
    approvals: Sequence[Middleware]
    todo_list: Sequence[Middleware]
    compaction: Sequence[Middleware]
    memory: Sequence[Middleware]
    application: Sequence[Middleware]
    tracing: Sequence[Middleware]
    workspace_of: WorkspaceFinder


def build_stack(plan: StackPlan) -> list[Middleware]:
    """The whole stack; the line of a placement is what that placement promises."""
    placed = plan.placements
    retry = _model_retry(plan.config)
    stack: list[Middleware] = [
        RunLimits(budget=plan.budget, max_turns=plan.max_turns),
        *placed.tool_visible,
        *placed.model_logical,
        *plan.compaction,
        *plan.memory,
        *plan.todo_list,
        ToolOutputLimit(plan.workspace_of),
        ToolFailures(),
        *plan.approvals,
        *tool_guards(plan.config.guards),
        *plan.application,
        TranscriptRepair(),
        *placed.standard,
        retry,
        *plan.tracing,
        *placed.model_physical,
        *placed.tool_raw,
    ]
    check_stack_order(stack, placed, retry=retry)
    return stack


def lead_approvals(tool_names: Sequence[str]) -> list[Middleware]:
    """Pause before each named tool until a person has decided."""
    return [Approvals(tool_names)] if tool_names else []


def subagent_approvals(tool_names: Sequence[str]) -> list[Middleware]:
    """Refuse each named tool: nobody can be asked inside a subagent."""
    return [ApprovalRefusal(tool_names)] if tool_names else []


def _model_retry(config: AppConfig) -> Middleware:
    return ModelRetryMiddleware(
        max_retries=config.model_retry.max_retries,
        initial_delay=config.model_retry.initial_delay_seconds,
        retry_on=is_transient,
        on_failure="error",
    )
