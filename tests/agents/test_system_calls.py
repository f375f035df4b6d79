"""The host's own model calls: bounded, observed once, and invisible in the stream around them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deerflow_extension_api import SystemModelCallObserver, SystemOperationKind
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from support.agents import ListModel
from support.hosts import scripted_config
from support.observers import Observed, observing

from deerflow.agents.system_calls import SystemCall, SystemModels, system_call, try_system_call
from deerflow.config import config_from
from deerflow.extensions import LoadedExtensions, NotificationLoop, register_notification_loop
from deerflow.models import ScriptedModelError

TITLE = SystemOperationKind.TITLE
PATIENCE_SECONDS = 30


class FlakyModel(ListModel):
    """Fails with what stands in its turns before it answers."""

    turns: list[Any] = [ConnectionResetError(), AIMessage("at last")]


class SelfCancelling(ListModel):
    """Raises CancelledError on its own account, as a broken HTTP client may."""

    turns: list[Any] = [asyncio.CancelledError()]


class Endless(ListModel):
    """Never answers; `asked` tells that it was asked."""

    turns: list[Any] = []

    async def _agenerate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append(messages)
        await asyncio.Event().wait()


asked: list[Any] = []


async def under_way(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """The work, once the endless model has been asked."""
    asked.clear()
    asyncio_task = asyncio.create_task(work)
    while not asked:
        await asyncio.sleep(0.001)
    return asyncio_task


@pytest.fixture
async def serving() -> AsyncIterator[NotificationLoop]:
    registration = register_notification_loop()
    yield registration
    registration.release()


@pytest.fixture
def observed() -> Observed:
    return Observed()


def models(home: Path, **turn: Any) -> SystemModels:
    return SystemModels(scripted_config(home, [{"when": "", "turns": [turn or {"text": "an answer"}]}]))


def models_of(use: str) -> SystemModels:
    record = {"name": "scripted", "use": f"{__name__}:{use}"}
    return SystemModels(config_from({"models": [record], "model_retry": {"initial_delay_seconds": 0.01}}))


def call_for(snapshot: LoadedExtensions, **fields: Any) -> SystemCall:
    call = SystemCall(TITLE, (HumanMessage("name this"),), "scripted", snapshot, timeout_seconds=10)
    return replace(call, **fields)


async def test_call_without_a_scope_is_told_on_the_side_with_a_detached_store(
    tmp_path: Path, observed: Observed, serving: NotificationLoop
) -> None:
    assert await system_call(models(tmp_path), call_for(observing(observed))) == "an answer"
    await serving.drain(PATIENCE_SECONDS)
    (seen,) = observed.calls
    assert (seen.store_id, seen.kind, seen.prompt, seen.answer) == (
        "detached",
        "title",
        "name this",
        "an answer",
    )


async def test_error_of_the_provider_travels_on_unchanged(
    tmp_path: Path, observed: Observed, serving: NotificationLoop
) -> None:
    with pytest.raises(ScriptedModelError, match="no quota") as raised:
        await system_call(models(tmp_path, error="no quota"), call_for(observing(observed)))
    await serving.drain(PATIENCE_SECONDS)
    assert [seen.result.error for seen in observed.calls] == [raised.value]


async def test_slow_call_ends_with_a_timeout_that_says_so(
    tmp_path: Path, observed: Observed, serving: NotificationLoop
) -> None:
    slow = call_for(observing(observed), timeout_seconds=0.05)
    with pytest.raises(TimeoutError, match=r"no answer within 0\.05 s"):
        await system_call(models(tmp_path, delay_seconds=30), slow)
    await serving.drain(PATIENCE_SECONDS)
    assert [type(seen.result.error) for seen in observed.calls] == [TimeoutError]


async def test_cancelled_call_is_told_once(observed: Observed, serving: NotificationLoop) -> None:
    work = await under_way(system_call(models_of("Endless"), call_for(observing(observed))))
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await serving.drain(PATIENCE_SECONDS)
    assert [type(seen.result.error) for seen in observed.calls] == [asyncio.CancelledError]


async def test_transient_failures_are_repeated_within_one_call(
    observed: Observed, serving: NotificationLoop
) -> None:
    assert await system_call(models_of("FlakyModel"), call_for(observing(observed))) == "at last"
    await serving.drain(PATIENCE_SECONDS)
    assert len(observed.calls) == 1


@pytest.mark.parametrize("use", ["SelfCancelling", "Missing"])
async def test_every_failure_of_a_model_can_be_survived(use: str, caplog: pytest.LogCaptureFixture) -> None:
    call = call_for(LoadedExtensions())
    assert await try_system_call(models_of(use), call, otherwise="nothing has a name") is None
    assert "the title call of model 'scripted' failed" in caplog.text
    assert "nothing has a name" in caplog.text


async def test_callers_own_cancellation_is_not_survived() -> None:
    call = call_for(LoadedExtensions())
    work = await under_way(try_system_call(models_of("Endless"), call, otherwise="nothing"))
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work


async def test_thoughts_are_no_part_of_the_answer(tmp_path: Path) -> None:
    answered = models(tmp_path, text="<think>\nhm\n</think>\n\nA name")
    assert await system_call(answered, call_for(LoadedExtensions())) == "A name"


async def test_observers_cannot_change_the_answer(tmp_path: Path, serving: NotificationLoop) -> None:
    class Meddling(SystemModelCallObserver):
        async def on_system_model_call(self, *arguments: Any) -> None:
            arguments[-1].response.content = "meddled"

    loaded = LoadedExtensions(system_model_observers=(("meddling:install", Meddling()),))
    assert await system_call(models(tmp_path), call_for(loaded)) == "an answer"


async def test_nothing_of_it_shows_in_the_stream_of_a_graph_around_it(tmp_path: Path) -> None:
    own = models(tmp_path, text="secret words of the host")

    class Calling(AgentMiddleware):
        async def awrap_model_call(self, request: Any, handler: Callable[..., Any]) -> Any:
            assert await system_call(own, call_for(LoadedExtensions())) == "secret words of the host"
            return await handler(request)

    graph = create_agent(ListModel(turns=[AIMessage("hello")]), [], middleware=[Calling()])
    parts = graph.astream({"messages": [("user", "hi")]}, stream_mode=["messages", "updates", "custom"])
    shown = [str(part) async for part in parts]
    assert any("hello" in part for part in shown) and not any("secret" in part for part in shown)
    events = [
        str(event) async for event in graph.astream_events({"messages": [("user", "hi")]}, version="v2")
    ]
    assert any("hello" in event for event in events) and not any("secret" in event for event in events)
