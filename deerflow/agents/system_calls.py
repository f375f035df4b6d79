"""The host's own model calls: titles, summaries, goals and memory all go through `system_call`.

They pass no contributed middleware, and no token of theirs reaches the stream of a run; the extensions'
observers are told of each, once.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import uniform
from typing import Any, TypeVar

from deerflow_extension_api import SystemModelRequest, SystemOperationKind
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.constants import TAG_NOSTREAM

from deerflow.agents.agent_spans import ids_of
from deerflow.agents.run_scope import RunScope
from deerflow.config.schema import AppConfig
from deerflow.extensions import LoadedExtensions, call_observed
from deerflow.extensions.cancellation import must_propagate
from deerflow.models import build_chat_model, is_transient
from deerflow.tracing import Tracing, names
from deerflow.tracing.chat import chat_start, note_answer, note_question

logger = logging.getLogger(__name__)

T = TypeVar("T")

_THOUGHTS = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)


@dataclass(frozen=True)
class SystemCall:
    """One call. `scope` is the execution in whose name it is made; None for one on nobody's time.

    Its tokens count as that execution's. `timeout_seconds` bounds the call with all its repetitions.
    """

    kind: SystemOperationKind
    messages: tuple[BaseMessage, ...]
    model_name: str
    snapshot: LoadedExtensions
    timeout_seconds: float
    scope: RunScope | None = None


class SystemModels:
    """The chat models of system calls, each built once, off the event loop."""

    def __init__(self, config: AppConfig) -> None:
        self.tracing: Tracing | None = None
        self._config = config
        self._built: dict[str, BaseChatModel] = {}

    async def answer(self, call: SystemCall) -> AIMessage:
        """Ask the model; transient failures are repeated as `model_retry` says."""
        model = await self._find(call.model_name)
        retry = self._config.model_retry
        for attempt in range(retry.max_retries):
            try:
                return await self._ask(model, call)
            except Exception as error:
                if not is_transient(error):
                    raise
            await asyncio.sleep(retry.initial_delay_seconds * 2**attempt * uniform(0.75, 1.25))
        return await self._ask(model, call)

    async def _ask(self, model: BaseChatModel, call: SystemCall) -> AIMessage:
        tracing = self.tracing
        if tracing is None:
            return await model.ainvoke(list(call.messages), _invoke_config(call))
        ids = {} if call.scope is None else ids_of(call.scope)
        start = chat_start(model, call.model_name, {**ids, names.SYSTEM_OPERATION: call.kind.value})
        with tracing.span(start) as span:
            if tracing.with_content:
                note_question(span, call.messages)
            answer = await model.ainvoke(list(call.messages), _invoke_config(call))
            note_answer(span, [answer], with_content=tracing.with_content)
            return answer

    async def _find(self, name: str) -> BaseChatModel:
        found = self._built.get(name)
        if found is None:
            model = await asyncio.to_thread(build_chat_model, self._config, name)
            found = self._built.setdefault(name, model)
        return found


async def system_call(models: SystemModels, call: SystemCall) -> str:
    """Return the text of the model's answer. Its own error travels on; `TimeoutError` after the call's time.

    Observers are waited for, at most 3 seconds, where the call has a scope and was not cancelled.
    """
    texts: list[str] = []

    async def ask() -> AIMessage:
        async with _limit(call):
            answer = await models.answer(call)
        # Read before the observers see it: what one of them does to the answer stays with it.
        texts.append(_spoken(answer))
        if call.scope is not None:
            call.scope.usage.add(answer.usage_metadata)
        return answer

    task_store = call.scope.task_store if call.scope is not None else None
    background = call.scope is None
    await call_observed(
        call.snapshot, task_store, call.kind, lambda: _shown(call), ask, background=background
    )
    return texts[0]


async def try_system_call(models: SystemModels, call: SystemCall, *, otherwise: str) -> str | None:
    """The text of the answer, or None as in `or_warn`."""
    what = f"the {call.kind} call of model {call.model_name!r}"
    return await or_warn(system_call(models, call), what, otherwise=otherwise)


async def or_warn(work: Awaitable[T], what: str, *, otherwise: str) -> T | None:
    """What `work` gives, or None with a warning that it failed and what happens `otherwise`.

    Only the caller's own cancellation is raised: a model that cancels itself has failed.
    """
    try:
        return await work
    except asyncio.CancelledError as error:
        if must_propagate(error):
            raise
        reason = "it cancelled itself"
    except Exception as error:  # noqa: BLE001 - a provider may fail in any way, and none of them ends a run
        reason = f"{type(error).__name__}: {error}"
    logger.warning("%s failed (%s); %s", what, reason, otherwise)
    return None


@asynccontextmanager
async def _limit(call: SystemCall) -> AsyncIterator[None]:
    limit = asyncio.timeout(call.timeout_seconds)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise TimeoutError(f"no answer within {call.timeout_seconds:g} s") from error


def _invoke_config(call: SystemCall) -> RunnableConfig:
    # Whatever is given here takes the place of what a graph around this call would pass on: without its
    # callbacks nothing of the answer can get into its stream.
    return {**_described(call), "callbacks": [], "configurable": {}}


def _described(call: SystemCall) -> RunnableConfig:
    metadata: dict[str, Any] = {"lc_source": call.kind.value}
    if call.scope is not None:
        info = call.scope.task_info
        metadata |= {"task_id": info.task_id, "run_id": info.run_id, "thread_id": info.thread_id}
    return {"run_name": f"{call.kind.value} call", "tags": [TAG_NOSTREAM], "metadata": metadata}


def _shown(call: SystemCall) -> SystemModelRequest:
    return SystemModelRequest(call.messages, call.model_name, dict(_described(call)))


def _spoken(answer: AIMessage) -> str:
    """The answer without what some models think aloud first."""
    return _THOUGHTS.sub("", answer.text).strip()
