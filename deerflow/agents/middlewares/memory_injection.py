"""The wrap hook that puts what is known about the user into the system prompt of the lead."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from deerflow_extension_api import ContentKind, provenance_kwargs
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import SystemMessage

from deerflow.agents.run_scope import scope_from_runtime

PRODUCER = "memory"


class MemoryInjection(AgentMiddleware[Any, Any]):
    """Adds the scope's `memory` to each request; the conversation itself is left alone."""

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        return handler(_remembering(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        return await handler(_remembering(request))


def _remembering(request: ModelRequest[Any]) -> ModelRequest[Any]:
    scope = scope_from_runtime(request.runtime)
    if scope is None or not scope.memory:
        return request
    base = request.system_message
    text = f"{base.text}\n\n{scope.memory}" if base is not None else scope.memory
    marks = provenance_kwargs(ContentKind.MEMORY, PRODUCER)
    extra = {**(base.additional_kwargs if base is not None else {}), **marks}
    return request.override(system_message=SystemMessage(text, additional_kwargs=extra))
