"""The limits that the host enforces, as far as extensions may know them."""

from __future__ import annotations

from deerflow_extension_api import HostPolicySnapshot

from deerflow.config import AppConfig, TokenBudgetConfig


def lead_policy(config: AppConfig, *, max_total_subagents: int | None = None) -> HostPolicySnapshot:
    """Return the limits of a lead run; `max_total_subagents` is the request's own total, where it has one."""
    configured = config.subagents.max_total_per_run
    total = configured if max_total_subagents is None else max_total_subagents
    return _policy(config.token_budget, max_subagents_per_run=total)


def subagent_policy(config: AppConfig, agent_name: str) -> HostPolicySnapshot:
    """Return the limits of a subagent: its own token budget, else that of all subagents."""
    return _policy(config.subagents.limits_for(agent_name).token_budget, max_subagents_per_run=None)


def _policy(budget: TokenBudgetConfig, *, max_subagents_per_run: int | None) -> HostPolicySnapshot:
    if not budget.enabled:
        return HostPolicySnapshot(max_subagents_per_run=max_subagents_per_run)
    return HostPolicySnapshot(
        token_budget_enabled=True,
        max_input_tokens=budget.max_input_tokens,
        max_output_tokens=budget.max_output_tokens,
        max_total_tokens=budget.max_tokens,
        budget_warn_fraction=budget.warn_threshold,
        budget_hard_fraction=budget.hard_stop_threshold,
        max_subagents_per_run=max_subagents_per_run,
    )
