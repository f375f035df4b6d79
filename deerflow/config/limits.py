"""Budgets of tokens, and what bounds a subagent."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from deerflow.config.fields import (
    Flag,
    Fraction,
    OptionalInt,
    OptionalSeconds,
    OptionalText,
    PositiveInt,
    Seconds,
    Section,
    Text,
    refusal,
)


class TokenBudgetConfig(Section):
    """How many tokens one execution may use; the thresholds are fractions of each maximum."""

    enabled: Flag = False
    max_tokens: PositiveInt = 200_000
    max_input_tokens: OptionalInt = None
    max_output_tokens: OptionalInt = None
    warn_threshold: Fraction = 0.8
    hard_stop_threshold: Fraction = 1.0

    @model_validator(mode="after")
    def _warn_before_the_stop(self) -> Self:
        if self.warn_threshold > self.hard_stop_threshold:
            raise refusal("a warn_threshold up to its hard_stop_threshold")
        return self


class SubagentTokenBudgetConfig(TokenBudgetConfig):
    """The budget of every subagent that has none of its own."""

    enabled: Flag = True
    max_tokens: PositiveInt = 2_000_000
    warn_threshold: Fraction = 0.7


class TokenBudgetOverride(Section):
    """The fields in which one agent's budget differs from `subagents.token_budget`."""

    enabled: Flag | None = None
    max_tokens: OptionalInt = None
    max_input_tokens: OptionalInt = None
    max_output_tokens: OptionalInt = None
    warn_threshold: Fraction | None = None
    hard_stop_threshold: Fraction | None = None

    def changes(self) -> dict[str, Any]:
        """Return the given fields; `null` lifts a limit of input or output tokens, else says nothing."""
        given = self.model_dump(exclude_unset=True)
        liftable = {"max_input_tokens", "max_output_tokens"}
        return {name: value for name, value in given.items() if value is not None or name in liftable}


class AgentOverride(Section):
    """What differs for one agent; absent fields follow `subagents`."""

    model: OptionalText = None
    tools: tuple[Text, ...] | None = None
    max_turns: OptionalInt = None
    timeout_seconds: OptionalSeconds = None
    token_budget: TokenBudgetOverride | None = None


class CustomAgent(AgentOverride):
    """An agent of the operator's own. `tools` absent: all tools; `tools: []`: none."""

    description: Text
    system_prompt: Text


class SubagentLimits(Section):
    """What bounds one agent, overrides applied. `tools`: `None` for all; `model`: `None` for the run's."""

    max_turns: int
    timeout_seconds: float
    token_budget: TokenBudgetConfig
    model: str | None
    tools: tuple[str, ...] | None


class SubagentsConfig(Section):
    """How many subagents may run, for how long, and which kinds there are."""

    timeout_seconds: Seconds = 1800
    max_turns: PositiveInt = 150
    max_total_per_run: PositiveInt = 6
    max_running: PositiveInt = 3
    max_queued: PositiveInt = 64
    admission: Literal["queue", "reject"] = "queue"
    queue_timeout_seconds: Seconds = 300
    token_budget: SubagentTokenBudgetConfig = SubagentTokenBudgetConfig()
    agents: dict[str, AgentOverride] = Field(default_factory=dict)
    custom_agents: dict[str, CustomAgent] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _budgets_fit(self) -> Self:
        for name in {*self.agents, *self.custom_agents}:
            try:
                self.limits_for(name)
            except ValidationError:
                raise refusal(f"for agent {name!r} a warn_threshold up to its hard_stop_threshold") from None
        return self

    def limits_for(self, agent_name: str) -> SubagentLimits:
        """Return the limits of `agent_name`: `agents` over `custom_agents` over the section's own."""
        found = (self.agents.get(agent_name), self.custom_agents.get(agent_name))
        layers = [layer for layer in found if layer is not None]
        return SubagentLimits(
            max_turns=next((layer.max_turns for layer in layers if layer.max_turns), self.max_turns),
            timeout_seconds=next(
                (layer.timeout_seconds for layer in layers if layer.timeout_seconds), self.timeout_seconds
            ),
            token_budget=self._budget(layers),
            model=next((layer.model for layer in layers if layer.model), None),
            tools=next((layer.tools for layer in layers if layer.tools is not None), None),
        )

    def _budget(self, layers: list[AgentOverride]) -> TokenBudgetConfig:
        values = self.token_budget.model_dump()
        for layer in reversed(layers):
            if layer.token_budget is not None:
                values.update(layer.token_budget.changes())
        return TokenBudgetConfig.model_validate(values)
