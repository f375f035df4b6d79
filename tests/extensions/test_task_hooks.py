"""The hooks of a task's start and stop come in pairs."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from deerflow_extension_api import ExtensionData, TaskInfo, TaskOutcome

from deerflow.extensions import LoadedExtensions, TaskHooks, register_notification_loop

INFO = TaskInfo(task_id="task-1", run_id="run-1", thread_id="thread-1", kind="lead")


class Noting:
    """Notes what it is told; its start may wait."""

    def __init__(self, *, waits: bool = False) -> None:
        self.told: list[str] = []
        self.entered = asyncio.Event()
        self._waits = waits

    async def on_task_start(self, *arguments: Any) -> None:
        self.told.append("start")
        self.entered.set()
        if self._waits:
            await asyncio.Event().wait()

    async def on_task_stop(self, app_store: Any, task_store: Any, info: Any, outcome: Any) -> None:
        self.told.append(f"stop {outcome}")


def _hooks(*contributors: Any, **settings: Any) -> TaskHooks:
    named = tuple(("acme:install", one) for one in contributors)
    return TaskHooks(LoadedExtensions(task_lifecycle=named, **settings), ExtensionData("task-1"), INFO)


async def test_start_and_stop_are_told() -> None:
    noting = Noting()
    hooks = _hooks(noting)
    await hooks.start()
    await hooks.stop(TaskOutcome.COMPLETED)
    assert noting.told == ["start", "stop completed"]


async def test_without_a_start_no_stop_is_told() -> None:
    noting = Noting()
    await _hooks(noting).stop(TaskOutcome.FAILED)
    assert noting.told == []


@pytest.mark.parametrize("registered", [False, True])
async def test_a_start_that_was_cancelled_before_anybody_was_told_has_no_stop(registered: bool) -> None:
    noting = Noting()
    hooks = _hooks(noting)
    registration = register_notification_loop() if registered else None
    starting = asyncio.create_task(hooks.start())
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await hooks.stop(TaskOutcome.ABORTED)
    assert noting.told == []
    if registration is not None:
        registration.release()


async def test_a_start_that_was_cancelled_while_one_was_being_told_has_its_stop() -> None:
    first, second = Noting(waits=True), Noting()
    hooks = _hooks(first, second)
    starting = asyncio.create_task(hooks.start())
    await first.entered.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await hooks.stop(TaskOutcome.ABORTED)
    assert first.told == ["start", "stop aborted"]
    assert second.told == ["stop aborted"]


@pytest.mark.usefixtures("only_timers")
async def test_who_was_skipped_at_the_start_is_told_of_the_stop_within_a_budget_of_its_own() -> None:
    first, second = Noting(waits=True), Noting()
    hooks = _hooks(first, second, notification_budget_seconds=0.05)
    await hooks.start()
    await hooks.stop(TaskOutcome.COMPLETED)
    assert first.told == ["start", "stop completed"]
    assert second.told == ["stop completed"]


async def test_who_could_not_be_told_of_the_start_in_time_is_told_of_the_stop() -> None:
    noting, entered, free = Noting(), threading.Event(), threading.Event()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    registration = register_notification_loop(loop)
    loop.call_soon_threadsafe(lambda: (entered.set(), free.wait(60)))
    await asyncio.to_thread(entered.wait, 60)
    hooks = _hooks(noting, notification_budget_seconds=0.05)
    await hooks.start()
    free.set()
    registration.release()
    await hooks.stop(TaskOutcome.COMPLETED)
    loop.call_soon_threadsafe(loop.stop)
    await asyncio.to_thread(thread.join, 60)
    loop.close()
    assert noting.told == ["stop completed"]
