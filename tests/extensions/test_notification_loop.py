from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from deerflow_extension_api import CompactionEvent, ExtensionData

from deerflow.extensions import LoadedExtensions, NotificationLoop, notification_loop, notify_compaction
from deerflow.extensions.dispatch import Notification
from deerflow.testing.problem_log import ProblemLog

EVENT = CompactionEvent("summarization", "1", ("a",), "b", 1, 2)
register = notification_loop.register_notification_loop


class Observer:
    def __init__(self, body: Callable[[], Awaitable[Any]] | None = None) -> None:
        self.body = body
        self.seen: list[tuple[ExtensionData, ExtensionData, CompactionEvent]] = []

    async def on_context_compacted(self, app_store: Any, task_store: Any, event: Any) -> None:
        if self.body is not None:
            await self.body()
        self.seen.append((app_store, task_store, event))


def observed_by(*observers: Observer) -> LoadedExtensions:
    return LoadedExtensions(
        context_compaction_observers=tuple(("acme:install", observer) for observer in observers)
    )


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "deerflow.extensions"]


@pytest.fixture
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no loop had been registered, and nothing been said, in this process yet."""
    monkeypatch.setattr(notification_loop, "_registrations", notification_loop._Registrations())


@pytest.fixture
async def serving(fresh_process: None) -> Any:
    registration = register()
    yield registration
    registration.release()


async def test_observation_runs_later_with_a_detached_store(serving: NotificationLoop) -> None:
    observer = Observer()
    loaded = observed_by(observer, observer)
    notify_compaction(loaded, EVENT)
    assert observer.seen == []
    assert serving.pending == 1
    assert await serving.drain(30) == 0
    (app_store, first, event), (_, second, _) = observer.seen
    assert app_store is loaded.app_store
    assert event is EVENT
    assert first.scope_id == "detached"
    assert first is second
    notify_compaction(loaded, EVENT)
    await serving.drain(30)
    assert observer.seen[2][1] is not first


def test_without_observers_nobody_asks_for_a_loop(
    fresh_process: None, caplog: pytest.LogCaptureFixture
) -> None:
    notify_compaction(LoadedExtensions(), EVENT)
    assert messages(caplog) == []


def test_without_a_loop_observations_are_dropped_with_one_warning(
    fresh_process: None, caplog: pytest.LogCaptureFixture
) -> None:
    observer = Observer()
    for _ in range(3):
        notify_compaction(observed_by(observer), EVENT)
    assert messages(caplog) == [
        "No running loop registered for extension observations; "
        "on_context_compacted for one compaction and later ones are dropped"
    ]
    assert observer.seen == []


async def test_observation_from_a_thread_arrives_on_the_loop(serving: NotificationLoop) -> None:
    loops: list[Any] = []

    async def where() -> None:
        loops.append(asyncio.get_running_loop())

    thread = threading.Thread(target=notify_compaction, args=(observed_by(Observer(where)), EVENT))
    thread.start()
    await asyncio.to_thread(thread.join)
    await serving.drain(30)
    assert loops == [serving.loop]


async def test_observation_survives_garbage_collection(serving: NotificationLoop) -> None:
    gates: list[weakref.ref[asyncio.Future[None]]] = []

    async def wait_on_a_future_nobody_else_holds() -> None:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        gates.append(weakref.ref(gate))
        await gate

    observer = Observer(wait_on_a_future_nobody_else_holds)
    notify_compaction(observed_by(observer), EVENT)
    await asyncio.sleep(0)
    gc.collect()
    gate = gates[0]()
    assert gate is not None
    gate.set_result(None)
    await serving.drain(30)
    assert len(observer.seen) == 1
    assert serving.pending == 0


async def test_failed_observation_is_logged(
    serving: NotificationLoop, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise ValueError("no disk")

    last = Observer()
    notify_compaction(observed_by(Observer(fail), last), EVENT)
    await serving.drain(30)
    assert messages(caplog) == [
        "Extension acme:install: on_context_compacted failed for one compaction: no disk"
    ]
    assert len(last.seen) == 1


async def test_observation_has_a_budget(serving: NotificationLoop, caplog: pytest.LogCaptureFixture) -> None:
    contributors = (("acme:install", Observer(asyncio.Event().wait)),)
    arguments = (None, None, EVENT)
    loaded = LoadedExtensions()
    serving.observe_later(
        Notification("on_context_compacted", loaded, contributors, arguments, "one compaction", 0.02)
    )
    assert await serving.drain(30) == 0
    assert messages(caplog) == [
        "Extension acme:install: on_context_compacted timed out for one compaction; "
        "the 0.0s notification budget was spent"
    ]


async def test_too_many_pending_observations_are_dropped_with_one_warning(
    serving: NotificationLoop, caplog: pytest.LogCaptureFixture
) -> None:
    observer = Observer()
    loaded = observed_by(observer)
    for _ in range(1010):
        notify_compaction(loaded, EVENT)
    assert serving.pending == 1000
    await serving.drain(30)
    assert len(observer.seen) == 1000
    assert messages(caplog) == [
        "1000 extension observations are pending; "
        "on_context_compacted for one compaction and others are dropped until there is room"
    ]
    notify_compaction(loaded, EVENT)
    await serving.drain(30)
    assert len(observer.seen) == 1001


async def test_late_observations_are_dropped_with_one_line(
    serving: NotificationLoop, caplog: pytest.LogCaptureFixture
) -> None:
    early, late = Observer(), Observer()
    notify_compaction(observed_by(early), EVENT)
    serving.stop_accepting()
    for _ in range(3):
        notify_compaction(observed_by(late), EVENT)
    await serving.drain(30)
    assert len(early.seen) == 1
    assert late.seen == []
    assert messages(caplog) == [
        "Observations of extensions are no longer accepted during shutdown; "
        "on_context_compacted for one compaction and later ones are dropped"
    ]


async def test_what_is_dropped_at_the_end_is_no_extensions_problem(serving: NotificationLoop) -> None:
    serving.stop_accepting()
    with ProblemLog() as problems:
        notify_compaction(observed_by(Observer()), EVENT)
    assert problems.lines == ()


async def test_drain_gives_up_at_its_timeout(
    serving: NotificationLoop, caplog: pytest.LogCaptureFixture
) -> None:
    cancelled: list[bool] = []

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    notify_compaction(observed_by(Observer(hang)), EVENT)
    assert await serving.drain(0.02) == 1
    assert await serving.drain(30) == 0
    assert cancelled == [True]
    assert messages(caplog) == ["1 extension observation(s) had not ended and were cancelled"]


async def test_drain_waits_for_observations_that_others_bring_about(serving: NotificationLoop) -> None:
    second = Observer()

    async def observe_again() -> None:
        notify_compaction(observed_by(second), EVENT)

    notify_compaction(observed_by(Observer(observe_again)), EVENT)
    await serving.drain(30)
    assert len(second.seen) == 1


async def test_newest_registration_counts_until_it_is_released(serving: NotificationLoop) -> None:
    loaded = observed_by(Observer())
    newer = register()
    assert notification_loop.notification_loop(loaded) is newer
    newer.release()
    newer.release()
    assert notification_loop.notification_loop(loaded) is serving


async def test_older_registration_may_be_released_first(serving: NotificationLoop) -> None:
    newer = register()
    serving.release()
    assert notification_loop.notification_loop(LoadedExtensions()) is newer
    newer.release()
    assert notification_loop.notification_loop(LoadedExtensions()) is None


async def test_registration_of_a_snapshot_comes_first_for_its_extensions(serving: NotificationLoop) -> None:
    mine, other = LoadedExtensions(), LoadedExtensions()
    own = register(snapshot=mine)
    newest = register(snapshot=LoadedExtensions())
    assert notification_loop.notification_loop(mine) is own
    assert notification_loop.notification_loop(other) is newest
    own.release()
    newest.release()


def test_second_life_in_the_same_process_works_as_the_first(
    fresh_process: None, caplog: pytest.LogCaptureFixture
) -> None:
    observer = Observer()

    async def life() -> None:
        registration = register()
        notify_compaction(observed_by(observer), EVENT)
        registration.stop_accepting()
        await registration.drain(30)
        registration.release()

    for _ in range(3):
        asyncio.run(life())
    assert len(observer.seen) == 3
    assert messages(caplog) == []


def test_loop_that_died_without_release_is_passed_over(
    fresh_process: None, caplog: pytest.LogCaptureFixture
) -> None:
    async def crash() -> None:
        register()

    asyncio.run(crash())
    observer = Observer()
    notify_compaction(observed_by(observer), EVENT)
    assert messages(caplog)[0].startswith("No running loop registered")


async def test_stubborn_observation_does_not_hold_up_the_drain(serving: NotificationLoop) -> None:
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    notify_compaction(observed_by(Observer(stubborn)), EVENT)
    assert await serving.drain(0.01) == 1
    assert await serving.drain(30) == 0
    release.set()


async def test_ten_thousand_observations_leave_nothing_behind(serving: NotificationLoop) -> None:
    stores: weakref.WeakSet[ExtensionData] = weakref.WeakSet()

    class Counting:
        async def on_context_compacted(self, app_store: Any, task_store: Any, event: Any) -> None:
            stores.add(task_store)

    loaded = LoadedExtensions(context_compaction_observers=(("acme:install", Counting()),))
    tasks_before = len(asyncio.all_tasks())
    for _ in range(100):
        for _ in range(100):
            notify_compaction(loaded, EVENT)
        await serving.drain(30)
    gc.collect()
    assert len(stores) == 0
    assert serving.pending == 0
    assert len(asyncio.all_tasks()) == tasks_before


async def test_threads_may_observe_while_the_loop_drains(serving: NotificationLoop) -> None:
    observer = Observer()
    loaded = observed_by(observer)

    def burst() -> None:
        for _ in range(200):
            notify_compaction(loaded, EVENT)

    await asyncio.gather(*(asyncio.to_thread(burst) for _ in range(4)))
    await serving.drain(30)
    assert len(observer.seen) == 800
    assert serving.pending == 0
