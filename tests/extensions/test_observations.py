from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import Any

import pytest
from deerflow_extension_api import (
    AgentAssemblyDescriptor,
    ExtensionData,
    SystemModelRequest,
    SystemModelResult,
    SystemOperationKind,
)

from deerflow.extensions import (
    LoadedExtensions,
    NotificationLoop,
    call_observed,
    diagnostics,
    notify_assembly,
    notify_system_model_call,
    observe_system_model_call_later,
    register_notification_loop,
)

TITLE = SystemOperationKind.TITLE
REQUEST = SystemModelRequest(messages="a prompt", model_name="offline")
RESULT = SystemModelResult(response="a title", duration_ms=1.0)
DESCRIPTOR = AgentAssemblyDescriptor(
    namespace="lead",
    agent_name=None,
    requested_model=None,
    effective_model="offline",
    model_parameters={},
    thinking_enabled=False,
    reasoning_effort=None,
    base_prompt_hash="0",
    tools=(),
    middlewares=(),
    deferred_tool_names=(),
    enabled_skills=(),
    effective_policies={},
)


class Observer:
    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    async def on_system_model_call(self, *arguments: Any) -> None:
        self.seen.append(arguments)


class Failing:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def on_system_model_call(self, *arguments: Any) -> None:
        raise self.error

    def on_agent_assembled(self, *arguments: Any) -> None:
        raise self.error


def observed_by(*observers: Any) -> LoadedExtensions:
    return LoadedExtensions(
        system_model_observers=tuple(
            (f"acme_{index}:install", observer) for index, observer in enumerate(observers)
        )
    )


def assembled_for(*observers: Any) -> LoadedExtensions:
    return LoadedExtensions(
        agent_assembly_observers=tuple(
            (f"acme_{index}:install", observer) for index, observer in enumerate(observers)
        )
    )


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "deerflow.extensions"]


@pytest.fixture
async def serving() -> AsyncIterator[NotificationLoop]:
    registration = register_notification_loop()
    yield registration
    registration.release()


async def test_call_is_told_with_the_store_of_its_task() -> None:
    observer, store = Observer(), ExtensionData("run-1")
    loaded = observed_by(observer)
    await notify_system_model_call(loaded, store, TITLE, REQUEST, RESULT)
    assert observer.seen == [(loaded.app_store, store, TITLE, REQUEST, RESULT)]


async def test_call_without_a_task_is_told_with_a_detached_store() -> None:
    observer = Observer()
    await notify_system_model_call(observed_by(observer), None, SystemOperationKind.MEMORY, REQUEST, RESULT)
    assert observer.seen[0][1].scope_id == "detached"


async def test_failing_observer_is_named_with_the_call(caplog: pytest.LogCaptureFixture) -> None:
    last = Observer()
    loaded = observed_by(Failing(ValueError("no disk")), last)
    await notify_system_model_call(loaded, ExtensionData("run-1"), TITLE, REQUEST, RESULT)
    await notify_system_model_call(loaded, None, TITLE, REQUEST, RESULT)
    assert len(last.seen) == 2
    assert messages(caplog) == [
        "Extension acme_0:install: on_system_model_call failed for the title call of task run-1: no disk",
        "Extension acme_0:install: on_system_model_call failed for a title call: no disk",
    ]


async def test_call_can_be_told_without_waiting(serving: NotificationLoop) -> None:
    observer = Observer()
    observe_system_model_call_later(observed_by(observer), None, TITLE, REQUEST, RESULT)
    assert observer.seen == []
    await serving.drain(30)
    assert len(observer.seen) == 1


async def answer() -> str:
    return "a title"


def request() -> SystemModelRequest:
    return REQUEST


async def test_successful_call_is_observed_once() -> None:
    observer, store = Observer(), ExtensionData("run-1")
    assert await call_observed(observed_by(observer), store, TITLE, request, answer) == "a title"
    [(_, seen_store, kind, seen_request, result)] = observer.seen
    assert (seen_store, kind, seen_request) == (store, TITLE, REQUEST)
    assert (result.response, result.error) == ("a title", None)
    assert result.duration_ms >= 0


async def test_failed_call_is_observed_once_and_its_error_travels_on_unchanged() -> None:
    error, observer = ValueError("provider down"), Observer()

    async def fail() -> str:
        raise error

    with pytest.raises(ValueError, match="provider down") as raised:
        await call_observed(observed_by(observer), None, TITLE, request, fail)
    assert raised.value is error
    [(*_, result)] = observer.seen
    assert (result.response, result.error) == (None, error)


async def test_cancelled_call_is_observed_once_without_waiting(serving: NotificationLoop) -> None:
    observer, entered = Observer(), asyncio.Event()

    async def hang() -> str:
        entered.set()
        await asyncio.Event().wait()
        return ""

    host = asyncio.create_task(call_observed(observed_by(observer), None, TITLE, request, hang))
    await entered.wait()
    host.cancel()
    with pytest.raises(asyncio.CancelledError):
        await host
    assert serving.pending == 1, "the observer is told later"
    await serving.drain(30)
    [(*_, result)] = observer.seen
    assert isinstance(result.error, asyncio.CancelledError)


@pytest.mark.parametrize("error", [None, ValueError("no")])
async def test_nobody_waits_for_the_observers_of_a_background_call(
    serving: NotificationLoop, error: Exception | None
) -> None:
    observer, memory = Observer(), SystemOperationKind.MEMORY

    async def call() -> str:
        if error is not None:
            raise error
        return "facts"

    async def observed() -> None:
        with pytest.raises(ValueError) if error else nullcontext():
            await call_observed(observed_by(observer), None, memory, lambda: REQUEST, call, background=True)

    await observed()
    assert not observer.seen
    await serving.drain(30)
    assert [(seen[1].scope_id, seen[2], seen[4].error) for seen in observer.seen] == [
        ("detached", memory, error)
    ]
    serving.stop_accepting()
    await observed()
    await serving.drain(30)
    assert len(observer.seen) == 1


async def test_unobserved_call_builds_nothing() -> None:
    def unwanted() -> SystemModelRequest:
        raise AssertionError("nobody observes")

    assert await call_observed(LoadedExtensions(), None, TITLE, unwanted, answer) == "a title"


async def test_observers_share_three_seconds_for_each_call(caplog: pytest.LogCaptureFixture) -> None:
    class Hanging:
        async def on_system_model_call(self, *arguments: Any) -> None:
            await asyncio.Event().wait()

    later = Observer()
    await notify_system_model_call(observed_by(Hanging(), later), None, TITLE, REQUEST, RESULT)
    assert later.seen == []
    spent = "for a title call; the 3.0s notification budget was spent"
    assert messages(caplog) == [
        f"Extension acme_0:install: on_system_model_call timed out {spent}",
        f"Extension acme_1:install: on_system_model_call skipped {spent}",
    ]


class AssemblyObserver:
    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def on_agent_assembled(self, *arguments: Any) -> None:
        self.seen.append(arguments)


def test_assembly_is_told_at_once_and_in_order() -> None:
    observer = AssemblyObserver()
    loaded = assembled_for(observer)
    notify_assembly(loaded, DESCRIPTOR)
    assert observer.seen == [(loaded.app_store, DESCRIPTOR)]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no disk"), "no disk"),
        (BaseException("odd"), "odd"),
        (asyncio.CancelledError(), "CancelledError"),
    ],
)
def test_failing_assembly_observer_spoils_nobody(
    error: BaseException, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    last = AssemblyObserver()
    loaded = assembled_for(Failing(error), object(), last)
    notify_assembly(loaded, DESCRIPTOR)
    assert len(last.seen) == 1
    assert messages(caplog)[0] == f"Extension acme_0:install: on_agent_assembled failed: {text}"
    assert loaded.diagnostics == []


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_interrupt_and_exit_out_of_an_assembly_observer_propagate(stop: type[BaseException]) -> None:
    with pytest.raises(stop):
        notify_assembly(assembled_for(Failing(stop())), DESCRIPTOR)


def test_assembly_observer_must_be_a_plain_function(caplog: pytest.LogCaptureFixture) -> None:
    class Async:
        async def on_agent_assembled(self, *arguments: Any) -> None:
            raise AssertionError("its body must never run")

    notify_assembly(assembled_for(Async()), DESCRIPTOR)
    assert messages(caplog) == [
        "Extension acme_0:install: on_agent_assembled must be a plain function; it returned a coroutine"
    ]


def test_slow_assembly_observer_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnostics, "SLOW_CALL_SECONDS", -1.0)
    notify_assembly(assembled_for(AssemblyObserver()), DESCRIPTOR)
    assert messages(caplog) == [
        "Extension acme_0:install: on_agent_assembled took 0.0 s and held up the host"
    ]
