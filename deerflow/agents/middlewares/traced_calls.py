"""A span around each model call, repetitions one by one, and around each tool call that is made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.messages import AIMessage

from deerflow.agents.agent_spans import ids_of
from deerflow.agents.run_scope import scope_from_runtime
from deerflow.tracing import Span, Tracing
from deerflow.tracing.chat import chat_start, note_answer, note_question
from deerflow.tracing.interface import Attributes
from deerflow.tracing.tools import note_arguments, note_result, tool_start


class TracedCalls(AgentMiddleware[Any, Any]):
    """Stands inside the retry of model calls, and inside whatever refuses a tool call."""

    def __init__(self, tracing: Tracing, model_name: str) -> None:
        self._tracing = tracing
        self._model_name = model_name

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """As its async side."""
        with self._model_span(request) as span:
            response = handler(request)
            self._note_answer(span, response)
            return response

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Call the model within a span."""
        with self._model_span(request) as span:
            response = await handler(request)
            self._note_answer(span, response)
            return response

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """As its async side."""
        with self._tool_span(request) as span:
            result = handler(request)
            note_result(span, result, with_content=self._tracing.with_content)
            return result

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Call the tool within a span."""
        with self._tool_span(request) as span:
            result = await handler(request)
            note_result(span, result, with_content=self._tracing.with_content)
            return result

    @contextmanager
    def _model_span(self, request: Any) -> Iterator[Span]:
        start = chat_start(request.model, self._model_name, _ids(request))
        with self._tracing.span(start) as span:
            if self._tracing.with_content:
                instructions = [] if request.system_message is None else [request.system_message]
                note_question(span, [*instructions, *request.messages])
            yield span

    @contextmanager
    def _tool_span(self, request: Any) -> Iterator[Span]:
        description = None if request.tool is None else request.tool.description
        with self._tracing.span(tool_start(request.tool_call, description, _ids(request))) as span:
            if self._tracing.with_content:
                note_arguments(span, request.tool_call)
            yield span

    def _note_answer(self, span: Span, response: Any) -> None:
        answers = [response] if isinstance(response, AIMessage) else getattr(response, "result", ())
        note_answer(span, answers, with_content=self._tracing.with_content)


def _ids(request: Any) -> Attributes:
    scope = scope_from_runtime(request.runtime)
    return {} if scope is None else ids_of(scope)
