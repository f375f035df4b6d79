"""The wrap hook that keeps every model request and answer well-formed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, BaseMessage
from pydantic import ValidationError

from deerflow.agents.transcript import answer_in_place_of, repaired, well_formed


class TranscriptRepair(AgentMiddleware[Any, Any]):
    """Pairs tool calls with results on the way out; on the way in it gives calls distinct ids, and results to
    those that nobody can read."""

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        repaired_request = _repaired_request(request)
        try:
            response = handler(repaired_request)
        except ValidationError as error:
            response = _in_place_of(error)
        return _repaired_response(response, repaired_request)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        repaired_request = _repaired_request(request)
        try:
            response = await handler(repaired_request)
        except ValidationError as error:
            response = _in_place_of(error)
        return _repaired_response(response, repaired_request)


def _in_place_of(error: ValidationError) -> ModelResponse[Any]:
    answer = answer_in_place_of(error)
    if answer is None:
        raise error
    return ModelResponse(result=[answer])


def _repaired_request(request: ModelRequest[Any]) -> ModelRequest[Any]:
    system, messages = well_formed(request.system_message, request.messages)
    return request.override(system_message=system, messages=messages)


def _repaired_response(response: ModelResponse[Any], request: ModelRequest[Any]) -> ModelResponse[Any]:
    result: list[BaseMessage] = []
    for message in response.result:
        if isinstance(message, AIMessage):
            result.extend(repaired(message, earlier=request.messages))
        else:
            result.append(message)
    response.result = result
    return response
