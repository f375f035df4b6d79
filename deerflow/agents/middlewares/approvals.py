"""The node hook that waits for a person's decision on tool calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from langchain.agents.middleware import (
    AgentState,
    HumanInTheLoopMiddleware,
    InterruptOnConfig,
    ToolCallRequest,
)
from langchain.agents.middleware.human_in_the_loop import ActionRequest, ReviewConfig
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime

_PROBLEM_KEY = "__deerflow_answer_problem"
_EDITS_KEY = "hitl_edited_tool_calls"


MOST_ANSWERS = 100
"""How often one question is asked."""


class Approvals(HumanInTheLoopMiddleware[Any, Any, Any]):
    """Pauses before each named tool until a person has approved, edited, rejected or answered its call.

    An answer that does not fit is asked for again, and the question says what was wrong with it. Calls that
    have a result already, refused ones say, are asked about by nobody.
    """

    def __init__(self, tool_names: Collection[str]) -> None:
        asking = InterruptOnConfig(
            allowed_decisions=["approve", "edit", "reject", "respond"], when=_waits_for_result
        )
        super().__init__(dict.fromkeys(tool_names, asking))

    @property
    def name(self) -> str:
        """LangChain's: whoever knows its node finds it here too."""
        return HumanInTheLoopMiddleware.__name__

    def after_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Ask until an answer fits.

        LangGraph gives the answers of earlier pauses again, in order, wrong ones too: had one of them ended
        the run, no later one could ever be heard.
        """
        asked: dict[str, Any] = dict(state)
        for _ in range(MOST_ANSWERS):
            try:
                return self._ask(asked, runtime)
            except GraphBubbleUp:
                raise
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                problem = f"The last answer did not fit ({type(error).__name__}: {error})."
                asked[_PROBLEM_KEY] = problem
        return self._ask(asked, runtime)

    def _ask(self, state: Mapping[str, Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        update = super().after_model(cast(AgentState[Any], state), runtime)
        _check_edits(update)
        return update

    def _create_action_and_config(
        self,
        tool_call: ToolCall,
        config: InterruptOnConfig,
        state: AgentState[Any],
        runtime: Runtime[Any],
    ) -> tuple[ActionRequest, ReviewConfig]:
        action, review = super()._create_action_and_config(tool_call, config, state, runtime)
        problem = state.get(_PROBLEM_KEY)
        if problem:
            action["description"] = f"{problem}\n\n{action.get('description', '')}"
        return action, review


def _check_edits(update: dict[str, Any] | None) -> None:
    edits: Mapping[str, Any] = (update or {}).get(_EDITS_KEY) or {}
    for edit in edits.values():
        if not (
            isinstance(edit, Mapping)
            and isinstance(edit.get("name"), str)
            and isinstance(edit.get("args"), Mapping)
        ):
            raise ValueError('edited_action is not {"name": <text>, "args": <mapping>}')


def _waits_for_result(request: ToolCallRequest) -> bool:
    for message in reversed(request.state["messages"]):
        if isinstance(message, ToolMessage) and message.tool_call_id == request.tool_call["id"]:
            return False
        if isinstance(message, AIMessage):
            break
    return True
