from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import threading
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from deerflow_extension_api import ExtensionData, TaskInfo, TaskLifecycleContributor, TaskOutcome

from deerflow import cancellation
from deerflow.extensions import (
    LoadedExtensions,
    listen_to_outcomes,
    notify_task_start,
    notify_task_stop,
    register_notification_loop,
)
from deerflow.extensions.dispatch import Notification
from deerflow.extensions.notify import notify
from deerflow.extensions.outcomes import HookOutcome

INFO = TaskInfo(task_id="7f3c-whole-id", run_id="r", thread_id="th", kind="lead")
STORE = ExtensionData("7f3c-whole-id")

Body = Callable[[], Awaitable[Any]]


class Hooks:
    """Runs `body` in `on_task_start` and counts the calls."""

    def __init__(self, body: Body | None = None) -> None:
        self.body = body
        self.calls = 0
        self.cancelled = False

    async def on_task_start(self, app_store: Any, task_store: Any, info: Any) -> None:
        self.calls += 1
        if self.body is not None:
            try:
                await self.body()
            except asyncio.CancelledError:
                self.cancelled = True
                raise


def raising(error: BaseException) -> Hooks:
    async def body() -> None:
        raise error

    return Hooks(body)


def hanging() -> Hooks:
    return Hooks(asyncio.Event().wait)


def start(*contributors: Any, budget_seconds: float = 3.0) -> Notification:
    named = tuple((f"acme_{index}:install", hooks) for index, hooks in enumerate(contributors))
    loaded = LoadedExtensions(task_lifecycle=named)
    arguments = (loaded.app_store, STORE, INFO)
    return Notification("on_task_start", loaded, named, arguments, "task 7f3c-whole-id", budget_seconds)


def messages(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    records = [record for record in caplog.records if record.name == "deerflow.extensions"]
    return [record.getMessage() for record in records if record.levelno >= level]


def put_forward(seconds: float) -> None:
    """Let it be so much later for the running loop."""
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]


@pytest.fixture
def other_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A second event loop that runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


async def test_hooks_get_their_arguments_in_registration_order() -> None:
    seen: list[Any] = []

    class Recorder(TaskLifecycleContributor):
        def __init__(self, name: str) -> None:
            self.name = name

        async def on_task_start(self, app_store: Any, task_store: Any, info: Any) -> None:
            seen.append((self.name, "start", app_store, task_store, info))

        async def on_task_stop(self, app_store: Any, task_store: Any, info: Any, outcome: Any) -> None:
            seen.append((self.name, "stop", app_store, task_store, info, outcome))

    loaded = LoadedExtensions(task_lifecycle=(("z:install", Recorder("z")), ("a:install", Recorder("a"))))
    await notify_task_start(loaded, STORE, INFO)
    await notify_task_stop(loaded, STORE, INFO, TaskOutcome.ABORTED)
    common = (loaded.app_store, STORE, INFO)
    assert seen == [
        ("z", "start", *common),
        ("a", "start", *common),
        ("z", "stop", *common, TaskOutcome.ABORTED),
        ("a", "stop", *common, TaskOutcome.ABORTED),
    ]


async def test_failing_hook_is_named_and_the_next_one_runs(caplog: pytest.LogCaptureFixture) -> None:
    last = Hooks()
    notification = start(raising(ValueError("no disk")), raising(BaseException("odd")), last)
    for _ in range(10):
        await notify(notification)
    assert last.calls == 10
    assert messages(caplog)[:2] == [
        "Extension acme_0:install: on_task_start failed for task 7f3c-whole-id: no disk",
        "Extension acme_1:install: on_task_start failed for task 7f3c-whole-id: odd",
    ]
    assert len(messages(caplog)) == 20


async def test_failure_is_logged_with_its_traceback_and_collected_nowhere(
    caplog: pytest.LogCaptureFixture,
) -> None:
    notification = start(raising(ValueError("no disk")))
    await notify(notification)
    assert caplog.records[0].exc_info is not None
    assert notification.snapshot.diagnostics == []


@pytest.mark.usefixtures("only_timers")
async def test_spent_budget_times_out_one_and_skips_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    slow, later = hanging(), Hooks()
    await notify(start(Hooks(), slow, later, later, budget_seconds=0.05))
    assert slow.cancelled
    assert later.calls == 0
    spent = "for task 7f3c-whole-id; the 0.1s notification budget was spent"
    assert messages(caplog) == [
        f"Extension acme_1:install: on_task_start timed out {spent}",
        f"Extension acme_2:install: on_task_start skipped {spent}",
        f"Extension acme_3:install: on_task_start skipped {spent}",
    ]
    assert all(record.exc_info is None for record in caplog.records)


async def test_task_hooks_have_three_seconds(caplog: pytest.LogCaptureFixture) -> None:
    loaded = LoadedExtensions(task_lifecycle=(("acme:install", hanging()),))
    begun = time.monotonic()
    await notify_task_start(loaded, STORE, INFO)
    assert time.monotonic() - begun > 2.9
    assert messages(caplog) == [
        "Extension acme:install: on_task_start timed out for task 7f3c-whole-id; "
        "the 3.0s notification budget was spent"
    ]


async def test_budget_is_shared_by_all_contributors(caplog: pytest.LogCaptureFixture) -> None:
    async def takes_a_minute() -> None:
        put_forward(60)
        for _ in range(3):
            await asyncio.sleep(0)

    steady = [Hooks(takes_a_minute) for _ in range(3)]
    await notify(start(*steady, budget_seconds=100))
    assert [hooks.calls for hooks in steady] == [1, 1, 0]
    assert [message.split()[3] for message in messages(caplog)] == ["timed", "skipped"]


async def test_timeout_error_of_a_contributor_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def own_timeout() -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    last = Hooks()
    await notify(start(raising(TimeoutError("mine")), Hooks(own_timeout), last))
    assert last.calls == 1
    assert messages(caplog) == [
        "Extension acme_0:install: on_task_start failed for task 7f3c-whole-id: mine",
        "Extension acme_1:install: on_task_start failed for task 7f3c-whole-id: TimeoutError",
    ]


async def test_cancelled_error_of_a_contributor_is_contained(caplog: pytest.LogCaptureFixture) -> None:
    last = Hooks()
    await notify(start(raising(asyncio.CancelledError()), last))
    assert last.calls == 1
    assert messages(caplog) == [
        "Extension acme_0:install: on_task_start raised CancelledError for task 7f3c-whole-id"
    ]


class _Unspeakable(BaseException):
    """An error whose text cannot be asked for."""

    def __str__(self) -> str:
        raise asyncio.CancelledError


@pytest.mark.parametrize(
    "error", [GeneratorExit(), BaseException("odd"), _Unspeakable(), StopAsyncIteration()]
)
async def test_errors_of_any_other_kind_are_contained_too(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    last = Hooks()
    await notify(start(raising(error), last))
    assert last.calls == 1
    assert messages(caplog)[0].startswith(
        "Extension acme_0:install: on_task_start failed for task 7f3c-whole-id"
    )


async def cancel_myself_and_return() -> None:
    asyncio_task = asyncio.current_task()
    assert asyncio_task is not None
    asyncio_task.cancel()


async def cancel_myself_and_wait() -> None:
    await cancel_myself_and_return()
    await asyncio.sleep(0)


@pytest.mark.parametrize("body", [cancel_myself_and_return, cancel_myself_and_wait])
async def test_contributor_that_cancels_itself_does_not_hit_the_next(body: Body) -> None:
    async def work() -> None:
        async with asyncio.timeout(30):
            await asyncio.sleep(0.01)
        finished.append(True)

    finished: list[bool] = []
    await notify(start(Hooks(body), Hooks(work)))
    assert finished == [True]
    asyncio_task = asyncio.current_task()
    assert asyncio_task is not None
    assert asyncio_task.cancelling() == 0


async def test_cancellation_of_the_host_propagates_and_calls_nobody_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    slow, later = hanging(), Hooks()
    host = asyncio.create_task(notify(start(slow, later)))
    await asyncio.sleep(0.01)
    host.cancel()
    with pytest.raises(asyncio.CancelledError):
        await host
    assert slow.cancelled
    assert later.calls == 0
    assert messages(caplog) == []


async def test_host_cancelled_while_a_hook_fails_calls_nobody_else() -> None:
    async def cancel_host_and_return() -> None:
        host.cancel()

    later = Hooks()
    host = asyncio.create_task(notify(start(Hooks(cancel_host_and_return), later)))
    with pytest.raises(asyncio.CancelledError):
        await host
    assert later.calls == 0


async def test_host_that_was_cancelled_before_can_still_notify() -> None:
    async def cleaning_up() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await notify(notification)
            raise

    first, last = raising(asyncio.CancelledError()), Hooks()
    notification = start(first, last)
    host = asyncio.create_task(cleaning_up())
    await asyncio.sleep(0)
    host.cancel()
    with pytest.raises(asyncio.CancelledError):
        await host
    assert last.calls == 1


async def test_hook_that_ignores_its_cancellation_is_abandoned(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="deerflow.extensions")
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()
        raise ValueError("late")

    later, before = Hooks(), set(cancellation._abandoned)
    await notify(start(Hooks(stubborn), later, budget_seconds=0.01))
    assert messages(caplog)[-1] == (
        "Extension acme_0:install: on_task_start ignored its cancellation for task 7f3c-whole-id "
        "and was abandoned"
    )
    gc.collect()
    [kept] = cancellation._abandoned - before
    release.set()
    await asyncio.wait((kept,))
    assert kept not in cancellation._abandoned
    assert caplog.records[-1].levelno == logging.DEBUG
    assert caplog.records[-1].getMessage().endswith("ended late for task 7f3c-whole-id: late")
    assert later.calls == 0


async def test_host_cancellation_does_not_wait_for_a_stubborn_hook() -> None:
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    before = set(cancellation._abandoned)
    host = asyncio.create_task(notify(start(Hooks(stubborn), budget_seconds=100)))
    await asyncio.sleep(0.01)
    host.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(host, 30)
    release.set()
    await asyncio.wait(cancellation._abandoned - before)


async def test_blocking_hook_spends_the_budget(caplog: pytest.LogCaptureFixture) -> None:
    async def blocking() -> None:
        time.sleep(0.06)

    later = Hooks()
    await notify(start(Hooks(blocking), later, budget_seconds=0.04))
    assert later.calls == 0
    assert [message.split(":")[1] + message.split()[3] for message in messages(caplog)] == [
        "installtimed",
        "installskipped",
    ]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
async def test_interrupt_and_exit_propagate_to_the_waiting_host(stop: type[BaseException]) -> None:
    later = Hooks()
    with pytest.raises(stop):
        await notify(start(raising(stop()), later))
    assert later.calls == 0


async def test_plain_hook_is_reported_and_the_next_one_runs(caplog: pytest.LogCaptureFixture) -> None:
    class Plain:
        def on_task_start(self, *arguments: Any) -> int:
            return 7

    class Generating:
        async def on_task_start(self, *arguments: Any) -> AsyncIterator[None]:
            raise AssertionError("its body must never run")
            yield

    last = Hooks()
    await notify(start(Plain(), Generating(), last))
    assert last.calls == 1
    hint = "expected an awaitable; define it with async def"
    assert messages(caplog) == [
        f"Extension acme_0:install: on_task_start returned int, {hint}",
        f"Extension acme_1:install: on_task_start returned async_generator, {hint}",
    ]


async def test_missing_hook_is_the_contracts_default(caplog: pytest.LogCaptureFixture) -> None:
    last = Hooks()
    await notify(start(object(), last))
    assert last.calls == 1
    assert messages(caplog) == []


def test_without_contributors_not_even_a_loop_is_needed() -> None:
    loaded = LoadedExtensions()
    for silent in (
        notify_task_start(loaded, None, INFO),
        notify_task_stop(loaded, None, INFO, TaskOutcome.COMPLETED),
    ):
        with pytest.raises(StopIteration):
            silent.send(None)


async def test_one_notification_is_one_asyncio_task() -> None:
    seen: list[asyncio.Task[Any] | None] = []

    async def remember() -> None:
        seen.append(asyncio.current_task())

    before = len(asyncio.all_tasks())
    counts: list[int] = []

    async def count() -> None:
        counts.append(len(asyncio.all_tasks()) - before)

    await notify(start(Hooks(remember), Hooks(remember), Hooks(count)))
    assert seen[0] is seen[1]
    assert counts == [1]


@pytest.mark.usefixtures("only_timers")
async def test_outcomes_are_told(caplog: pytest.LogCaptureFixture) -> None:
    told: list[tuple[str, str, bool]] = []

    def listener(outcome: HookOutcome) -> None:
        assert outcome.seconds == outcome.span_seconds >= 0
        told.append((outcome.source, outcome.hook, outcome.failed))
        raise ValueError("a broken counter")

    release = listen_to_outcomes(listener)
    await notify(start(Hooks(), raising(ValueError()), hanging(), Hooks(), budget_seconds=0.02))
    release()
    await notify(start(Hooks()))
    assert told == [
        ("acme_0:install", "on_task_start", False),
        ("acme_1:install", "on_task_start", True),
        ("acme_2:install", "on_task_start", True),
    ]


async def test_hooks_run_on_the_registered_loop(other_loop: asyncio.AbstractEventLoop) -> None:
    seen: list[asyncio.AbstractEventLoop] = []

    async def where() -> None:
        seen.append(asyncio.get_running_loop())

    notification = start(Hooks(where))
    registration = register_notification_loop(other_loop)
    await notify(notification)
    registration.release()
    await notify(notification)
    assert seen == [other_loop, asyncio.get_running_loop()]


async def test_budget_holds_on_another_loop(
    other_loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture, wait_until_called: Any
) -> None:
    slow, later = hanging(), Hooks()
    wait_until_called(slow)
    registration = register_notification_loop(other_loop)
    await notify(start(slow, later, budget_seconds=0.05))
    registration.release()
    async with asyncio.timeout(30):
        while not slow.cancelled:
            await asyncio.sleep(0.001)
    assert [message.split()[3] for message in messages(caplog)] == ["timed", "skipped"]


async def test_cancellation_is_carried_to_another_loop(other_loop: asyncio.AbstractEventLoop) -> None:
    slow, later = hanging(), Hooks()
    registration = register_notification_loop(other_loop)
    host = asyncio.create_task(notify(start(slow, later)))
    while not slow.calls:
        await asyncio.sleep(0.005)
    host.cancel()
    with pytest.raises(asyncio.CancelledError):
        await host
    registration.release()
    async with asyncio.timeout(30):
        while not slow.cancelled:
            await asyncio.sleep(0.001)
    assert later.calls == 0


async def test_interrupt_on_another_loop_reaches_the_host(other_loop: asyncio.AbstractEventLoop) -> None:
    registration = register_notification_loop(other_loop)
    with pytest.raises(KeyboardInterrupt):
        await notify(start(raising(KeyboardInterrupt())))
    registration.release()
    assert other_loop.is_running()


async def test_blocked_loop_does_not_hold_the_host(
    other_loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture, wait_until_called: Any
) -> None:
    release = threading.Event()

    async def blocking() -> None:
        release.wait(60)

    blocked, later = Hooks(blocking), Hooks()
    wait_until_called(blocked)
    registration = register_notification_loop(other_loop)
    await notify(start(blocked, later, budget_seconds=0.05))
    registration.release()
    assert not release.is_set()
    release.set()
    assert [message.split()[3] for message in messages(caplog)] == ["timed", "skipped"]
    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asyncio.sleep(0.01), other_loop))
    assert later.calls == 0


async def test_loop_that_no_longer_runs_is_passed_over() -> None:
    closed = asyncio.new_event_loop()
    registration = register_notification_loop(closed)
    hooks = Hooks()
    await notify(start(hooks))
    closed.close()
    await notify(start(hooks))
    registration.release()
    assert hooks.calls == 2


async def test_ten_thousand_notifications_leave_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError

    async def cancel() -> None:
        raise asyncio.CancelledError

    caplog.set_level(logging.CRITICAL, logger="deerflow.extensions")
    loaded = start(Hooks(), Hooks(fail), Hooks(cancel), Hooks()).snapshot
    loop = asyncio.get_running_loop()
    tasks_before = len(asyncio.all_tasks())
    stores: weakref.WeakSet[ExtensionData] = weakref.WeakSet()
    for _ in range(10_000):
        store = ExtensionData("t")
        stores.add(store)
        await notify_task_start(loaded, store, INFO)
    del store
    gc.collect()
    assert len(asyncio.all_tasks()) == tasks_before
    # asyncio sweeps cancelled timers once a hundred of them have gathered
    assert len(loop._scheduled) <= 200  # type: ignore[attr-defined]
    assert len(stores) == 0
