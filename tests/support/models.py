"""Chat models that know one side only, for `models:` of a configuration."""

from __future__ import annotations

import threading
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult

from deerflow.models import ScriptedChatModel

threads: list[str] = []
"""Names of the threads in which a synchronous model answered."""


class _OneSided(BaseChatModel):
    rules: list[dict[str, Any]]

    @property
    def _llm_type(self) -> str:
        return "one-sided"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _inner(self) -> ScriptedChatModel:
        return ScriptedChatModel(rules=self.rules)


class SyncModel(_OneSided):
    """Answers synchronously only."""

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        threads.append(threading.current_thread().name)
        return self._inner()._generate(messages)


class AsyncModel(_OneSided):
    """Answers asynchronously only."""

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError("this model is asynchronous only")

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return await self._inner()._agenerate(messages)
