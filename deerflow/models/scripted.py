"""A chat model without a network: it says what its rules say, or acts as the offline demo agent."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall, ToolCallChunk
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from deerflow.errors import DeerFlowError
from deerflow.models import demo_agent
from deerflow.models.conversation import Conversation, count_words
from deerflow.models.script import Delay, Rules, ScriptedTurn, fill, find_turn

_TOKEN = re.compile(r"\S+\s*|\s+")


class ScriptedModelError(DeerFlowError, RuntimeError):
    """A rule's turn is an `error`; the text is that turn's."""


class ScriptedChatModel(BaseChatModel):
    """A deterministic, offline, stateless chat model.

    `rules`: `[{"when": <regular expression>, "turns": [...]}]`. The first rule whose `when` is found in the
    last human message answers; its turns are taken by the number of AI messages after that message, the last
    one repeats. A turn is `{text}`, `{tool_calls: [{name, args, id?}]}`, both, or `{error}`, each with
    `delay_seconds` if wished. `{prompt}` and `{tool_results}` in its strings are replaced.
    Without rules it is the offline demo agent. A turn with `error` raises `ScriptedModelError`.
    """

    rules: Rules = ()
    token_delay_seconds: Delay = 0.0
    model_name: str = "scripted"

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.model_name, "rules": len(self.rules)}

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return this model with `tools` at hand; only their names and descriptions are kept."""
        return self.bind(tools=[_tool_record(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        turn, conversation = self._turn(messages, kwargs)
        time.sleep(turn.delay_seconds)
        return self._result(turn, conversation)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        turn, conversation = self._turn(messages, kwargs)
        await asyncio.sleep(turn.delay_seconds)
        return self._result(turn, conversation)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        turn, conversation = self._turn(messages, kwargs)
        time.sleep(turn.delay_seconds)
        for chunk in self._chunks(self._message(turn, conversation)):
            yield ChatGenerationChunk(message=chunk)
            if self.token_delay_seconds and chunk.content:
                time.sleep(self.token_delay_seconds)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        turn, conversation = self._turn(messages, kwargs)
        await asyncio.sleep(turn.delay_seconds)
        for chunk in self._chunks(self._message(turn, conversation)):
            yield ChatGenerationChunk(message=chunk)
            if self.token_delay_seconds and chunk.content:
                await asyncio.sleep(self.token_delay_seconds)

    def _turn(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> tuple[ScriptedTurn, Conversation]:
        conversation = Conversation.read(messages)
        if not self.rules:
            return demo_agent.answer(conversation, _tool_names(kwargs)), conversation
        turn = find_turn(self.rules, conversation.prompt, conversation.turn_index)
        if turn is None:
            return ScriptedTurn(text=f"No rule for: {conversation.prompt}"), conversation
        filled = fill(turn.model_dump(exclude_unset=True), conversation.prompt, conversation.tool_results)
        return ScriptedTurn.model_validate(filled), conversation

    def _result(self, turn: ScriptedTurn, conversation: Conversation) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._message(turn, conversation))])

    def _message(self, turn: ScriptedTurn, conversation: Conversation) -> AIMessage:
        if turn.error is not None:
            raise ScriptedModelError(turn.error)
        calls = _tool_calls(turn, conversation)
        said = [turn.text or "", *(f"{call['name']} {_json(call['args'])}" for call in calls)]
        spent, made = conversation.word_count(), sum(map(count_words, said))
        return AIMessage(
            content=turn.text or "",
            tool_calls=calls,
            usage_metadata=UsageMetadata(input_tokens=spent, output_tokens=made, total_tokens=spent + made),
            response_metadata={
                "model_name": self.model_name,
                "finish_reason": "tool_calls" if calls else "stop",
            },
        )

    def _chunks(self, message: AIMessage) -> Iterator[AIMessageChunk]:
        """Yield the message's text token by token, its tool calls one by one, and its usage at the end."""
        for token in _TOKEN.findall(str(message.content)):
            yield AIMessageChunk(content=token)
        for index, call in enumerate(message.tool_calls):
            chunk = ToolCallChunk(
                name=call["name"],
                args=_json(call["args"]),
                id=call["id"],
                index=index,
                type="tool_call_chunk",
            )
            yield AIMessageChunk(content="", tool_call_chunks=[chunk])
        yield AIMessageChunk(
            content="",
            usage_metadata=message.usage_metadata,
            response_metadata=message.response_metadata,
            chunk_position="last",
        )


def _tool_calls(turn: ScriptedTurn, conversation: Conversation) -> list[ToolCall]:
    if not turn.tool_calls:
        return []
    stem = f"call_{conversation.fingerprint()}_{len(conversation.messages)}"
    return [
        ToolCall(name=call.name, args=call.args, id=call.id or f"{stem}_{index}", type="tool_call")
        for index, call in enumerate(turn.tool_calls)
    ]


def _json(args: dict[str, Any]) -> str:
    return json.dumps(args, default=str)  # its ASCII form also carries lone surrogates


def _tool_record(tool: Any) -> dict[str, Any]:
    """Return what a provider would be sent, less the schema of the arguments."""
    if isinstance(tool, dict):
        return tool
    name = getattr(tool, "name", None) or getattr(tool, "__name__", type(tool).__name__)
    description = getattr(tool, "description", None) or getattr(tool, "__doc__", None) or ""
    return {"type": "function", "function": {"name": str(name), "description": str(description)}}


def _tool_names(kwargs: dict[str, Any]) -> frozenset[str]:
    records = [tool for tool in kwargs.get("tools") or () if isinstance(tool, dict)]
    return frozenset(
        str(record.get("function", record).get("name") or record.get("title", "")) for record in records
    )
