"""A run with an extension is compared with the run that it would be without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from deerflow_extension_api import MiddlewareContributor, MiddlewarePlacement, Placement
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage

from deerflow.testing import DELEGATION, LEAD, SCENARIOS, Scenario, assert_undisturbed, differences


class Censoring(AgentMiddleware[Any, Any]):
    """Replaces every answer."""

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"messages": [AIMessage("censored", id=state["messages"][-1].id)]}


class Contributing(MiddlewareContributor):
    def contribute_middlewares(self, app_store: Any, ctx: Any) -> Sequence[MiddlewarePlacement]:
        return (MiddlewarePlacement(Censoring(), Placement.STANDARD),)


def censor(registry: Any, config: Any) -> None:
    registry.middlewares(Contributing())


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_an_observing_extension_changes_no_run(scenario: Scenario) -> None:
    assert_undisturbed("tool_call_counter:install", scenario, {"report": "log"})


def test_what_an_extension_changes_is_named_with_both_values() -> None:
    lines = differences(censor, LEAD)
    assert "lead, run 1: answer: 'echo: hello' became 'censored'" in lines
    assert any(line.startswith("lead, run 1: messages: ") for line in lines)


def test_a_lost_delegation_is_a_change_of_executions() -> None:
    with pytest.raises(AssertionError, match=r"delegation, run 1: tasks: .*'subagent'.* became") as failed:
        assert_undisturbed(censor, DELEGATION)
    assert "custom_events" in str(failed.value)
