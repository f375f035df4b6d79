"""The wrap hook that keeps every model request and answer well-formed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage

from deerflow.agents.transcript import repaired, well_formed


class TranscriptRepair(AgentMiddleware[Any, Any]):
    """Pairs tool calls with results on the way out, gives distinct ids to tool calls on the way in."""

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        return _repaired_response(handler(_repaired_request(request)))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        return _repaired_response(await handler(_repaired_request(request)))


def _repaired_request(request: ModelRequest[Any]) -> ModelRequest[Any]:
    system, messages = well_formed(request.system_message, request.messages)
    return request.override(system_message=system, messages=messages)


def _repaired_response(response: ModelResponse[Any]) -> ModelResponse[Any]:
    response.result = [
        repaired(message) if isinstance(message, AIMessage) else message for message in response.result
    ]
    return response
