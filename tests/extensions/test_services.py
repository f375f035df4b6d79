from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from deerflow_extension_api import ExtensionRuntimeDeps, ExtensionService

from deerflow.extensions import Diagnostic, LoadedExtensions, start_services

DEPS = ExtensionRuntimeDeps()

Body = Callable[[], Awaitable[Any]]


class Service:
    """Writes down what is called, and runs a body in it."""

    def __init__(
        self, name: str, story: list[str], start: Body | None = None, stop: Body | None = None
    ) -> None:
        self.name, self.story, self.start_body, self.stop_body = name, story, start, stop
        self.deps: list[ExtensionRuntimeDeps] = []

    async def start(self, deps: ExtensionRuntimeDeps) -> None:
        self.story.append(f"{self.name} starts")
        self.deps.append(deps)
        if self.start_body is not None:
            await self.start_body()

    async def stop(self) -> None:
        self.story.append(f"{self.name} stops")
        if self.stop_body is not None:
            await self.stop_body()


def serving(*services: Any) -> LoadedExtensions:
    return LoadedExtensions(
        services=tuple((f"{getattr(service, 'name', 'x')}:install", service) for service in services)
    )


def raising(error: BaseException) -> Body:
    async def body() -> None:
        raise error

    return body


def hang() -> Awaitable[Any]:
    return asyncio.Event().wait()


def faults(loaded: LoadedExtensions) -> list[tuple[str, str]]:
    assert all(diagnostic.level == "error" for diagnostic in loaded.diagnostics)
    return [(diagnostic.source, diagnostic.message) for diagnostic in loaded.diagnostics]


async def test_services_start_in_order_and_stop_in_reverse() -> None:
    story: list[str] = []
    first, second = Service("a", story), Service("b", story)
    loaded = serving(first, second)
    services = await start_services(loaded, DEPS)
    assert first.deps == [DEPS]
    await services.stop()
    assert story == ["a starts", "b starts", "b stops", "a stops"]
    assert loaded.diagnostics == []


async def test_service_that_fails_to_start_is_reported_and_stopped_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    story: list[str] = []
    loaded = serving(Service("a", story, raising(OSError("port taken"))), Service("b", story))
    services = await start_services(loaded, DEPS)
    message = "service start() failed; continuing without it: port taken"
    assert loaded.diagnostics == [Diagnostic("error", "a:install", message)]
    assert caplog.records[0].getMessage() == f"Extension a:install: {message}"
    assert caplog.records[0].exc_info is not None
    await services.stop()
    assert story == ["a starts", "b starts", "b stops", "a stops"]


async def cancel_myself() -> None:
    asyncio_task = asyncio.current_task()
    assert asyncio_task is not None
    asyncio_task.cancel()
    await asyncio.sleep(0)


@pytest.mark.parametrize("start", [raising(asyncio.CancelledError()), cancel_myself])
async def test_cancelled_error_of_a_service_is_a_failure(start: Body) -> None:
    story: list[str] = []
    loaded = serving(Service("a", story, start, lambda: asyncio.sleep(0.01)), Service("b", story))
    services = await start_services(loaded, DEPS)
    await services.stop()
    assert faults(loaded) == [("a:install", "service start() failed; continuing without it: CancelledError")]
    assert story == ["a starts", "b starts", "b stops", "a stops"]


@pytest.mark.parametrize("error", [GeneratorExit(), BaseException("odd")])
async def test_errors_of_any_other_kind_keep_no_host_waiting(error: BaseException) -> None:
    story: list[str] = []
    loaded = serving(Service("a", story, raising(error), raising(error)), Service("b", story))
    services = await asyncio.wait_for(start_services(loaded, DEPS), 5)
    await services.stop()
    assert [source for source, _ in faults(loaded)] == ["a:install", "a:install"]
    assert story == ["a starts", "b starts", "b stops", "a stops"]


async def test_cancelled_startup_stops_what_was_entered_and_propagates() -> None:
    story: list[str] = []
    loaded = serving(
        Service("a", story), Service("b", story, hang, lambda: asyncio.sleep(0)), Service("c", story)
    )
    host = asyncio.create_task(start_services(loaded, DEPS))
    while "b starts" not in story:
        await asyncio.sleep(0)
    host.cancel()
    with pytest.raises(asyncio.CancelledError):
        await host
    assert story == ["a starts", "b starts", "b stops", "a stops"]
    assert loaded.diagnostics == []


@pytest.mark.parametrize("blocks_the_loop", [False, True])
async def test_slow_start_is_named_again_and_again_and_waited_for(
    blocks_the_loop: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def warnings() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]

    async def until_warned_twice() -> None:
        while len(warnings()) < 2:
            if blocks_the_loop:
                time.sleep(0.01)  # holds the event loop: the warnings have to come although nothing else can
            else:
                await asyncio.sleep(0.01)

    story: list[str] = []
    loaded = serving(Service("a", story, until_warned_twice), Service("b", story))
    services = await start_services(loaded, DEPS, warn_every_seconds=0.06)
    await services.stop()
    for line in warnings():
        assert re.fullmatch(
            r"Extension a:install: service start\(\) has been running for \d+\.\ds; the host waits for it",
            line,
        )
    assert story == ["a starts", "b starts", "b stops", "a stops"]
    assert loaded.diagnostics == []


async def test_hanging_stop_is_given_up_and_the_others_are_stopped() -> None:
    story: list[str] = []
    cancelled: list[bool] = []

    async def hang_noting_cancellation() -> None:
        try:
            await hang()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    loaded = serving(
        Service("a", story), Service("b", story, stop=hang_noting_cancellation), Service("c", story)
    )
    services = await start_services(loaded, DEPS, stop_timeout_seconds=0.05)
    await services.stop()
    await asyncio.sleep(0)
    assert story[3:] == ["c stops", "b stops", "a stops"]
    assert faults(loaded) == [("b:install", "service stop() timed out after 0.1s; continuing shutdown")]
    assert cancelled == [True]


async def test_stop_that_ignores_its_cancellation_is_abandoned() -> None:
    story: list[str] = []
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()
        raise ValueError("late")

    loaded = serving(Service("a", story), Service("b", story, stop=stubborn))
    services = await start_services(loaded, DEPS, stop_timeout_seconds=0.05)
    await services.stop()
    release.set()
    await asyncio.sleep(0.01)
    assert story[2:] == ["b stops", "a stops"]
    assert len(loaded.diagnostics) == 1


async def test_default_time_to_stop_is_thirty_seconds() -> None:
    loaded = serving(Service("a", []))
    services = await start_services(loaded, DEPS)
    assert services._stop_timeout_seconds == 30.0
    await services.stop()


@pytest.mark.parametrize(
    ("error", "text"),
    [(OSError("disk gone"), "disk gone"), (asyncio.CancelledError(), "CancelledError")],
)
async def test_failing_stop_is_reported_and_the_others_are_stopped(error: BaseException, text: str) -> None:
    story: list[str] = []
    loaded = serving(Service("a", story), Service("b", story, stop=raising(error)))
    services = await start_services(loaded, DEPS)
    await services.stop()
    assert story[2:] == ["b stops", "a stops"]
    assert faults(loaded) == [("b:install", f"service stop() failed; continuing shutdown: {text}")]


async def test_cancelled_shutdown_stops_every_service_first() -> None:
    story: list[str] = []
    stopping, may_stop = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        stopping.set()
        await may_stop.wait()
        story.append("done")

    services = await start_services(serving(Service("a", story), Service("b", story, stop=slow)), DEPS)
    host = asyncio.create_task(services.stop())
    await stopping.wait()
    host.cancel()
    await asyncio.sleep(0.01)
    may_stop.set()
    with pytest.raises(asyncio.CancelledError):
        await host
    assert story[2:] == ["b stops", "done", "a stops"]


async def test_stopping_twice_stops_once() -> None:
    story: list[str] = []
    services = await start_services(serving(Service("a", story)), DEPS)
    await asyncio.gather(services.stop(), services.stop())
    await services.stop()
    assert story == ["a starts", "a stops"]


async def test_same_services_live_twice() -> None:
    story: list[str] = []
    loaded = serving(Service("a", story))
    for _ in range(2):
        await (await start_services(loaded, DEPS)).stop()
    assert story == ["a starts", "a stops"] * 2


async def test_service_starts_again_once_the_cause_of_its_failure_is_gone() -> None:
    story: list[str] = []
    service = Service("a", story, raising(OSError("port taken")))
    loaded = serving(service)
    await (await start_services(loaded, DEPS)).stop()
    service.start_body = None
    await (await start_services(loaded, DEPS)).stop()
    assert len(loaded.diagnostics) == 1
    assert story == ["a starts", "a stops"] * 2


async def test_start_and_stop_share_an_asyncio_task() -> None:
    class Grouped(ExtensionService):
        async def start(self, deps: Any) -> None:
            self.group = anyio.create_task_group()
            await self.group.__aenter__()
            self.group.start_soon(anyio.sleep_forever)

        async def stop(self) -> None:
            self.group.cancel_scope.cancel()
            await self.group.__aexit__(None, None, None)

    loaded = serving(Grouped())
    services = await start_services(loaded, DEPS)
    await asyncio.sleep(0.01)
    await services.stop()
    assert loaded.diagnostics == []


async def test_service_whose_own_work_fails_is_stopped_and_reported() -> None:
    stopped = asyncio.Event()

    class Grouped(ExtensionService):
        async def start(self, deps: Any) -> None:
            self.group = anyio.create_task_group()
            await self.group.__aenter__()
            self.group.start_soon(raising(ValueError("worker died")))

        async def stop(self) -> None:
            stopped.set()
            await self.group.__aexit__(None, None, None)

    story: list[str] = []
    loaded = serving(Grouped(), Service("b", story))
    services = await start_services(loaded, DEPS)
    await asyncio.wait_for(stopped.wait(), 30)
    await services.stop()
    assert faults(loaded)[0] == ("x:install", "service was cancelled while it was running; stopping it")
    assert faults(loaded)[1][1].startswith("service stop() failed; continuing shutdown: ")
    assert story == ["b starts", "b stops"]


async def test_plain_start_and_stop_are_reported() -> None:
    class Plain:
        name = "p"

        def start(self, deps: Any) -> None: ...

        def stop(self) -> None: ...

    loaded = serving(Plain())
    await (await start_services(loaded, DEPS)).stop()
    hint = "returned NoneType, expected an awaitable; define it with async def"
    assert faults(loaded) == [
        ("p:install", f"service start() {hint}"),
        ("p:install", f"service stop() {hint}"),
    ]


async def test_missing_start_or_stop_is_the_contracts_default() -> None:
    story: list[str] = []

    class OnlyStop:
        async def stop(self) -> None:
            story.append("stops")

    loaded = serving(OnlyStop())
    await (await start_services(loaded, DEPS)).stop()
    assert story == ["stops"]
    assert loaded.diagnostics == []


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
async def test_interrupt_and_exit_out_of_start_propagate_after_stopping(stop: type[BaseException]) -> None:
    story: list[str] = []
    loaded = serving(Service("a", story), Service("b", story, raising(stop())), Service("c", story))
    with pytest.raises(stop):
        await start_services(loaded, DEPS)
    assert story == ["a starts", "b starts", "b stops", "a stops"]


async def test_exit_out_of_stop_propagates_after_the_others_were_stopped() -> None:
    story: list[str] = []
    loaded = serving(Service("a", story), Service("b", story, stop=raising(SystemExit())))
    services = await start_services(loaded, DEPS)
    with pytest.raises(SystemExit):
        await services.stop()
    assert story[2:] == ["b stops", "a stops"]


async def test_nothing_to_serve_makes_no_asyncio_task() -> None:
    before = asyncio.all_tasks()
    services = await start_services(LoadedExtensions(), DEPS)
    assert asyncio.all_tasks() == before
    await services.stop()
