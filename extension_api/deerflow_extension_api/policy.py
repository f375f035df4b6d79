"""The limits that the host enforces, as far as extensions may know them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HostPolicySnapshot:
    """The host's limits for one agent, or for the whole host where a service receives it.

    The five token fields are `None` while the token budget is disabled. The two fractions are shares of the
    budget between 0 and 1. `max_subagents_per_run` is `None` for a subagent, which delegates to nobody.
    """

    token_budget_enabled: bool = False
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    max_total_tokens: int | None = None
    budget_warn_fraction: float | None = None
    budget_hard_fraction: float | None = None
    max_subagents_per_run: int | None = None
