"""The wrap hook that counts what an execution uses, and ends it in good order where a limit is reached."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from deerflow_extension_api import ContentKind, provenance_kwargs
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from deerflow.agents.run_scope import scope_from_runtime
from deerflow.agents.usage import UsageMeter
from deerflow.config import TokenBudgetConfig

STOP_REASON_KEY = "deerflow_stop_reason"
TURN_CAPPED = "turn_capped"
TOKEN_CAPPED = "token_capped"

_MARKS = provenance_kwargs(ContentKind.MIDDLEWARE_INJECTION, "run_limits")


@dataclass(frozen=True)
class _Stop:
    reason: str
    text: str


class RunLimits(AgentMiddleware[Any, Any]):
    """Stops before the next model turn once `max_turns` or the token budget is spent.

    The last message then says so, with the reason in `response_metadata["deerflow_stop_reason"]`.
    """

    def __init__(self, *, budget: TokenBudgetConfig | None = None, max_turns: int | None = None) -> None:
        super().__init__()
        self._budget = budget if budget is not None and budget.enabled else None
        self._max_turns = max_turns

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        usage = _usage_of(request)
        stop = self._stop(usage)
        if stop is not None:
            return _stopped(usage, stop)
        return _counted(usage, handler(self._warned(request, usage)))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        usage = _usage_of(request)
        stop = self._stop(usage)
        if stop is not None:
            return _stopped(usage, stop)
        return _counted(usage, await handler(self._warned(request, usage)))

    def _stop(self, usage: UsageMeter) -> _Stop | None:
        if self._max_turns is not None and usage.turns >= self._max_turns:
            return _Stop(TURN_CAPPED, f"Stopped: the limit of {self._max_turns} turns is reached.")
        if self._budget is None:
            return None
        for spent, limit, what in _budget_lines(usage, self._budget):
            if limit is not None and spent >= limit * self._budget.hard_stop_threshold:
                return _Stop(TOKEN_CAPPED, f"Stopped: the budget of {limit} {what} is spent ({spent} used).")
        return None

    def _warned(self, request: ModelRequest[Any], usage: UsageMeter) -> ModelRequest[Any]:
        if self._budget is None:
            return request
        for spent, limit, what in _budget_lines(usage, self._budget):
            if limit is not None and spent >= limit * self._budget.warn_threshold:
                return request.override(system_message=_reminded(request, f"{spent} of {limit} {what}"))
        return request


def _reminded(request: ModelRequest[Any], spent: str) -> SystemMessage:
    """The system message with the reminder at its end: the conversation itself stays the user's."""
    base = request.system_message or SystemMessage("")
    text = f"{base.text}\n\nReminder: {spent} are used. Finish with what you have.".strip()
    return SystemMessage(text, additional_kwargs={**base.additional_kwargs, **_MARKS})


def _budget_lines(usage: UsageMeter, budget: TokenBudgetConfig) -> tuple[tuple[int, int | None, str], ...]:
    return (
        (usage.total_tokens, budget.max_tokens, "tokens"),
        (usage.input_tokens, budget.max_input_tokens, "input tokens"),
        (usage.output_tokens, budget.max_output_tokens, "output tokens"),
    )


def _usage_of(request: ModelRequest[Any]) -> UsageMeter:
    """The meter of this run; where the graph runs without the host, one filled from the current turn."""
    scope = scope_from_runtime(request.runtime)
    if scope is not None:
        return scope.usage
    usage = UsageMeter()
    for message in reversed(request.messages):
        if isinstance(message, HumanMessage):
            break
        if isinstance(message, AIMessage):
            usage.add_turn(message.usage_metadata)
    return usage


def _counted(usage: UsageMeter, response: ModelResponse[Any]) -> ModelResponse[Any]:
    usage.add_turn(_usage_metadata(response.result))
    return response


def _usage_metadata(messages: list[BaseMessage]) -> dict[str, Any] | None:
    for message in messages:
        if isinstance(message, AIMessage) and message.usage_metadata:
            return dict(message.usage_metadata)
    return None


def _stopped(usage: UsageMeter, stop: _Stop) -> ModelResponse[Any]:
    usage.stop_reason = stop.reason
    message = AIMessage(
        stop.text, additional_kwargs={**_MARKS}, response_metadata={STOP_REASON_KEY: stop.reason}
    )
    return ModelResponse(result=[message])
