"""What a model's stream carries of a tool call decides whether the call counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, CallbackManager
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from deerflow.config import config_from
from deerflow.models import build_chat_model
from deerflow.models.whole_arguments import WholeArguments, with_whole_arguments


class PieceModel(BaseChatModel):
    """Streams tool calls in the given pieces: (index, arguments)."""

    pieces: list[tuple[int | None, str | None]]
    disable_streaming: bool = False

    @property
    def _llm_type(self) -> str:
        return "pieces"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        seen: set[int | None] = set()
        for index, text in self.pieces:
            head = index is None or index not in seen
            seen.add(index)
            chunk = tool_call_chunk(
                name="search" if head else None,
                args=text,
                id=f"call-{len(seen)}" if head else None,
                index=index,
            )
            yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=[chunk]))

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._stream():
            yield chunk


def answered(*pieces: tuple[int | None, str | None], sync: bool = False) -> AIMessage:
    model = with_whole_arguments(PieceModel(pieces=list(pieces)))
    if sync:
        return model.invoke("hello", stream=True)
    return asyncio.run(model.ainvoke("hello", stream=True))


@pytest.mark.parametrize("sync", [True, False])
def test_half_arguments_become_an_invalid_call_with_what_was_sent(sync: bool) -> None:
    answer = answered((0, '{"a": '), (1, '{"b": 1}'), (0, '"x'), sync=sync)
    assert [call["args"] for call in answer.tool_calls] == [{"b": 1}]
    assert [call["args"] for call in answer.invalid_tool_calls] == ['{"a": "x']


def test_whole_arguments_stay() -> None:
    answer = answered((0, None), (0, '{"a": "line\nline"}'), (1, ""), (None, '{"c": []}'))
    assert [call["args"] for call in answer.tool_calls] == [{"a": "line\nline"}, {}, {"c": []}]
    assert answer.invalid_tool_calls == []


def test_of_two_calls_alike_only_the_half_one_goes() -> None:
    answer = answered((0, '{"a": "x"}'), (1, '{"a": "x"'))
    assert len(answer.tool_calls) == len(answer.invalid_tool_calls) == 1


def test_nothing_is_kept_of_answers_that_ended() -> None:
    model = with_whole_arguments(PieceModel(pieces=[(0, '{"a": 1}')]))
    model.invoke("hello", stream=True)
    assert isinstance(model.callbacks, list)
    (handler,) = model.callbacks
    assert isinstance(handler, WholeArguments) and handler._texts == {}


_shared = PieceModel(pieces=[])


def shared() -> PieceModel:
    return _shared


def test_a_factory_that_gives_the_same_model_again_collects_nothing() -> None:
    config = config_from({"models": [{"name": "m", "use": "models.test_whole_arguments:shared"}]})
    before = [build_chat_model(config) for _ in range(3)]
    assert isinstance(before[0].callbacks, list) and len(before[0].callbacks) == 1


@pytest.mark.parametrize("given", [[BaseCallbackHandler()], CallbackManager([BaseCallbackHandler()])])
def test_callbacks_of_the_application_stay(given: Any) -> None:
    model = with_whole_arguments(PieceModel(pieces=[], callbacks=given))
    handlers = model.callbacks if isinstance(model.callbacks, list) else model.callbacks.handlers  # type: ignore[union-attr]
    assert len(handlers) == 2


def test_a_clients_own_repetitions_are_off_unless_the_record_wants_them() -> None:
    record = {"name": "m", "use": "langchain_openai:ChatOpenAI", "model": "gpt", "api_key": "none"}
    assert build_chat_model(config_from({"models": [record]})).max_retries == 0  # type: ignore[attr-defined]
    wanted = config_from({"models": [{**record, "max_retries": 5}]})
    assert build_chat_model(wanted).max_retries == 5  # type: ignore[attr-defined]
