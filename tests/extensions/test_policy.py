from __future__ import annotations

from typing import Any

from deerflow_extension_api import HostPolicySnapshot

from deerflow.config import AppConfig
from deerflow.extensions import lead_policy, subagent_policy

BUDGET = {
    "enabled": True,
    "max_tokens": 1000,
    "max_input_tokens": 700,
    "max_output_tokens": 300,
    "warn_threshold": 0.5,
    "hard_stop_threshold": 0.9,
}


def config(**sections: Any) -> AppConfig:
    return AppConfig.model_validate(sections)


def test_lead_policy_projects_the_token_budget() -> None:
    assert lead_policy(config(token_budget=BUDGET, subagents={"max_total_per_run": 4})) == HostPolicySnapshot(
        token_budget_enabled=True,
        max_input_tokens=700,
        max_output_tokens=300,
        max_total_tokens=1000,
        budget_warn_fraction=0.5,
        budget_hard_fraction=0.9,
        max_subagents_per_run=4,
    )


def test_token_fields_are_none_while_the_budget_is_off() -> None:
    off = {**BUDGET, "enabled": False}
    assert lead_policy(config(token_budget=off)) == HostPolicySnapshot(max_subagents_per_run=6)


def test_request_overrides_the_total_of_subagents() -> None:
    assert lead_policy(config(), max_total_subagents=2).max_subagents_per_run == 2


def test_subagent_policy_projects_the_budget_of_subagents() -> None:
    policy = subagent_policy(config(token_budget=BUDGET), "general-purpose")
    assert policy == HostPolicySnapshot(
        token_budget_enabled=True,
        max_total_tokens=2_000_000,
        budget_warn_fraction=0.7,
        budget_hard_fraction=1.0,
    )


def test_subagent_policy_follows_the_agents_own_budget() -> None:
    subagents = {
        "token_budget": BUDGET,
        "agents": {"general-purpose": {"token_budget": {"max_tokens": 50}}},
        "custom_agents": {
            "reviewer": {
                "description": "reviews",
                "system_prompt": "review",
                "token_budget": {"enabled": False},
            }
        },
    }
    settings = config(subagents=subagents)
    assert subagent_policy(settings, "general-purpose").max_total_tokens == 50
    assert subagent_policy(settings, "general-purpose").max_input_tokens == 700
    assert subagent_policy(settings, "reviewer") == HostPolicySnapshot()
    assert subagent_policy(settings, "unknown").max_total_tokens == 1000
