"""Tool calls whose arguments arrived only in part are not run.

While an answer streams, LangChain completes half a JSON text to what it might have become: an answer that was
cut would write half a file. What a model sent is read again here, strictly, when its answer is whole.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager, Callbacks
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, ToolCall
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, GenerationChunk, LLMResult
from langchain_core.utils.json import parse_partial_json

MOST_ANSWERS = 1024
"""Answers that are followed at a time; of one whose caller went away nobody says that it ended."""


class WholeArguments(BaseCallbackHandler):
    """Moves tool calls with half arguments to `invalid_tool_calls`, in answers of any number of runs."""

    run_inline = True

    def __init__(self) -> None:
        self._texts: dict[UUID, dict[Any, str]] = {}

    def on_llm_new_token(
        self,
        token: Any,
        *,
        chunk: GenerationChunk | ChatGenerationChunk | None = None,
        run_id: UUID,
        **kwargs: Any,
    ) -> None:
        """Keep what arrives of arguments, as it is."""
        message = getattr(chunk, "message", None)
        if not isinstance(message, AIMessageChunk) or not message.tool_call_chunks:
            return
        texts = self._texts.setdefault(run_id, defaultdict(str))
        while len(self._texts) > MOST_ANSWERS:
            self._texts.pop(next(iter(self._texts)), None)
        for piece in message.tool_call_chunks:
            # Pieces without an index are calls of their own, as LangChain takes them.
            index = piece.get("index")
            texts[len(texts) if index is None else ("index", index)] += piece.get("args") or ""

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Hold the answer's tool calls against what arrived."""
        halves = [text for text in self._texts.pop(run_id, {}).values() if _is_half(text)]
        if not halves:
            return
        for generation in (one for several in response.generations for one in several):
            if isinstance(generation, ChatGeneration) and isinstance(generation.message, AIMessage):
                _take_back(generation.message, halves)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Forget what arrived."""
        self._texts.pop(run_id, None)


def with_whole_arguments(model: BaseChatModel) -> BaseChatModel:
    """The model itself, which from now on gives no tool call with half arguments."""
    given = model.callbacks
    handlers = given.handlers if isinstance(given, BaseCallbackManager) else (given or [])
    if not any(isinstance(handler, WholeArguments) for handler in handlers):  # a factory may give one twice
        model.callbacks = _added(given, WholeArguments())
    return model


def _added(callbacks: Callbacks, handler: BaseCallbackHandler) -> Callbacks:
    if isinstance(callbacks, BaseCallbackManager):
        manager = callbacks.copy()
        manager.add_handler(handler, inherit=False)
        return manager
    return [*(callbacks or ()), handler]


def _is_half(text: str) -> bool:
    if not text:
        return False  # no arguments at all are none
    try:
        json.loads(text, strict=False)
    except ValueError:
        return True
    return False


def _take_back(message: AIMessage, halves: list[str]) -> None:
    kept: list[ToolCall] = []
    for call in message.tool_calls:
        text = next((text for text in halves if _completed(text) == call["args"]), None)
        if text is None:
            kept.append(call)
        else:
            halves.remove(text)
            broken = invalid_tool_call(name=call["name"], args=text, id=call["id"], error="cut short")
            message.invalid_tool_calls = [*message.invalid_tool_calls, broken]
    message.tool_calls = kept


def _completed(text: str) -> Any:
    try:
        return parse_partial_json(text)
    except ValueError:
        return None
