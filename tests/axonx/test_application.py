"""Configuration, start, rollback and close of whole Applications."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.axonx_app import Recorder, recorder, recorder_app, step_app, ticks, until

from axonx import Application, BaseComponent, BaseScheduler, BaseService, BaseStep, provider
from axonx.errors import NotRunningError


@contextmanager
def no_task_left() -> Iterator[None]:
    before = asyncio.all_tasks()
    yield
    assert asyncio.all_tasks() <= before


async def test_the_workspace_is_made_by_start(tmp_path: Path) -> None:
    app = Application(workspace_dir=str(tmp_path / "a" / "b"))
    assert not app.workspace_path.exists()
    async with app as same:
        assert same is app
        assert app.workspace_path.is_dir()
        assert app.is_started
    assert not app.is_started


async def test_an_application_starts_once_and_again_after_close(tmp_path: Path) -> None:
    log: list[str] = []
    app = recorder_app(tmp_path, log, {"a": {}})
    with no_task_left():
        await asyncio.gather(app.start(), app.start())
        await app.start()
        await asyncio.gather(app.close(), app.close())
        await app.close()
        async with app:
            pass
    assert log == ["start a", "close a"] * 2


async def test_components_jobs_schedulers_and_service_start_in_this_order(tmp_path: Path) -> None:
    log: list[str] = []

    @provider("logged")
    class Scheduler(BaseScheduler):
        async def _start(self) -> None:
            log.append(f"start scheduler, {(await self.app_context.dispatcher.run('j')).answer}")  # type: ignore[union-attr]

        async def _close(self) -> None:
            log.append("close scheduler")

    @provider("logged")
    class Service(BaseService):
        async def _start(self) -> None:
            log.append("start service")

        async def _close(self) -> None:
            log.append("close service")

    async with Application(
        providers=(recorder(log), Scheduler, Service),
        workspace_dir=tmp_path,
        service={"backend": "logged"},
        schedules={"s": {"backend": "logged", "job": "j"}},
        jobs={"j": {"steps": [{"backend": "demo_step"}]}},
        components={"recorder": {"a": {"backend": "recorder"}}},
    ):
        pass
    assert log == [
        *("start a", "start scheduler, Hello, AxonX!", "start service"),
        *("close service", "close scheduler", "close a"),
    ]


async def test_a_failed_start_closes_what_was_started_and_can_be_repeated(tmp_path: Path) -> None:
    log: list[str] = []
    error = OSError("no port")
    app = recorder_app(tmp_path, log, {"a": {}, "b": {}, "c": {"start_error": error}, "d": {}})
    with no_task_left(), pytest.raises(OSError) as caught:
        await app.start()
    assert caught.value is error
    assert log == ["start a", "start b", "start c", "close c", "close b", "close a"]
    assert not app.is_started
    await app.close()
    log.clear()
    failing = app.context.component("recorder", "c")
    assert isinstance(failing, Recorder)
    failing.start_error = None
    async with app:
        assert log == ["start a", "start b", "start c", "start d"]


async def test_errors_of_a_rollback_join_the_start_error(tmp_path: Path) -> None:
    start, close = OSError("start"), ValueError("close")
    app = recorder_app(tmp_path, [], {"a": {"close_error": close}, "b": {}, "c": {"start_error": start}})
    with pytest.raises(
        ExceptionGroup, match="Application startup failed and rollback was incomplete"
    ) as caught:
        await app.start()
    assert caught.value.exceptions == (start, close)


async def test_every_close_is_attempted_and_every_error_told_once(tmp_path: Path) -> None:
    class Odd(BaseException):
        pass

    log: list[str] = []
    first, odd, cancelled = ValueError("x"), Odd("y"), asyncio.CancelledError()
    app = recorder_app(
        tmp_path,
        log,
        {"a": {"close_error": first}, "b": {"close_error": cancelled}, "c": {"close_error": odd}, "d": {}},
    )
    await app.start()
    with pytest.raises(BaseExceptionGroup, match="Application cleanup failed") as caught:
        await app.close()
    assert caught.value.exceptions == (odd, cancelled, first)
    assert log[4:] == ["close d", "close c", "close b", "close a"]
    await app.close()
    assert log[8:] == []


async def test_one_close_error_is_a_group_too(tmp_path: Path) -> None:
    app = recorder_app(tmp_path, [], {"a": {"close_error": ValueError("x")}})
    with pytest.raises(ExceptionGroup, match="Application cleanup failed") as caught:
        async with app:
            raise LookupError("body")
    assert isinstance(caught.value.__context__, LookupError)


class Hanging(Recorder):
    """Hangs in the hook that `hang` names, once."""

    def __init__(self, hang: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hang = hang

    async def _start(self) -> None:
        await super()._start()
        await self._perhaps_hang("start")

    async def _close(self) -> None:
        await super()._close()
        await self._perhaps_hang("close")
        self.log.append(f"closed {self.name}")

    async def _perhaps_hang(self, hook: str) -> None:
        if hook == self.hang:
            self.hang = ""
            await asyncio.Event().wait()


def hanging_app(tmp_path: Path, log: list[str], hang: dict[str, str], **config: Any) -> Application:
    cls = provider("hanging")(type("LoggedHanging", (Hanging,), {"log": log}))
    components = {"recorder": {name: {"backend": "hanging", "hang": hook} for name, hook in hang.items()}}
    return Application(providers=(cls,), workspace_dir=tmp_path, components=components, **config)


async def test_a_cancelled_start_leaves_nothing_open(tmp_path: Path) -> None:
    log: list[str] = []
    app = hanging_app(tmp_path, log, {"a": "", "b": "start"})
    with no_task_left():
        start = asyncio.create_task(app.start())
        await until(lambda: "start b" in log)
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start
    assert log == ["start a", "start b", "close b", "closed b", "close a", "closed a"]
    async with app:
        assert app.is_started


async def test_a_second_starter_begins_anew_when_the_first_is_cancelled(tmp_path: Path) -> None:
    log: list[str] = []

    @provider("slow_to_close")
    class SlowToClose(Hanging):
        async def _close(self) -> None:
            await asyncio.sleep(0.02)
            await super()._close()

    SlowToClose.log = log
    components = {"recorder": {"a": {"backend": "slow_to_close", "hang": "start"}}}
    app = Application(providers=(SlowToClose,), workspace_dir=tmp_path, components=components)
    first, second = asyncio.create_task(app.start()), asyncio.create_task(app.start())
    await until(lambda: log)
    first.cancel()
    await asyncio.wait_for(second, 60)
    assert first.cancelled()
    assert log == ["start a", "close a", "closed a", "start a"]
    await app.close()


async def test_a_timed_out_close_goes_on_and_a_later_one_waits_for_its_end(tmp_path: Path) -> None:
    log: list[str] = []
    go = asyncio.Event()

    @provider("gated")
    class Gated(BaseComponent):
        component_type = "gated"

        async def _close(self) -> None:
            await go.wait()
            log.append("closed")

    components = {"gated": {"a": {"backend": "gated"}, "b": {"backend": "gated"}}}
    app = Application(providers=(Gated,), workspace_dir=tmp_path, components=components)
    with no_task_left():
        await app.start()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(app.close(), 0.01)
        assert log == []
        assert not app.is_started
        go.set()
        await app.close()
    assert log == ["closed", "closed"]


async def test_a_close_over_its_limit_is_cancelled_and_the_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log: list[str] = []
    app = hanging_app(tmp_path, log, {"a": "", "b": "close"}, component_close_timeout_seconds=0.05)
    await app.start()
    with pytest.raises(ExceptionGroup) as caught:
        await app.close()
    assert [type(error) for error in caught.value.exceptions] == [TimeoutError]
    assert "Component recorder:b: _close took longer than 0.05 s" in str(caught.value.exceptions[0])
    assert "_close took longer" in caplog.text
    assert log[2:] == ["close b", "close a", "closed a"]
    async with app:
        assert log[5:] == ["start a", "start b"]


async def test_a_rollback_that_hangs_is_bounded_too(tmp_path: Path) -> None:
    @provider("stuck")
    class Stuck(BaseComponent):
        component_type = "stuck"

        async def _start(self) -> None:
            raise OSError("start")

        async def _close(self) -> None:
            await asyncio.Event().wait()

    components = {"stuck": {"a": {"backend": "stuck"}}}
    app = Application(
        providers=(Stuck,),
        workspace_dir=tmp_path,
        components=components,
        component_close_timeout_seconds=0.02,
    )
    with pytest.raises(ExceptionGroup, match="a startup failed and rollback was incomplete") as caught:
        await app.start()
    assert [type(error) for error in caught.value.exceptions] == [OSError, TimeoutError]


async def test_close_while_starting_closes_after_the_start(tmp_path: Path) -> None:
    log: list[str] = []
    go = asyncio.Event()

    @provider("gated")
    class Gated(Recorder):
        async def _start(self) -> None:
            await go.wait()
            await super()._start()

    Gated.log = log
    app = Application(
        providers=(Gated,), workspace_dir=tmp_path, components={"recorder": {"a": {"backend": "gated"}}}
    )
    with no_task_left():
        start = asyncio.create_task(app.start())
        await ticks()
        close = asyncio.create_task(app.close())
        await ticks()
        go.set()
        await asyncio.gather(start, close)
    assert log == ["start a", "close a"]


async def test_close_from_a_components_own_task_does_not_wait_for_itself(tmp_path: Path) -> None:
    log: list[str] = []

    @provider("watcher")
    class Watcher(Recorder):
        app: Application
        trouble = asyncio.Event()

        async def _start(self) -> None:
            await super()._start()
            self.watch = asyncio.create_task(self.close_on_trouble())

        async def close_on_trouble(self) -> None:
            await self.trouble.wait()
            await self.app.close()
            self.log.append("asked")

        async def _close(self) -> None:
            await self.watch
            await super()._close()

    Watcher.log = log
    app = Application(
        providers=(Watcher,), workspace_dir=tmp_path, components={"recorder": {"a": {"backend": "watcher"}}}
    )
    Watcher.app = app
    await app.start()
    Watcher.trouble.set()
    await app.context.component("recorder", "a").watch  # type: ignore[attr-defined]
    assert not app.is_started
    await asyncio.wait_for(app.close(), 60)
    assert log == ["start a", "asked", "close a"]


async def test_a_component_cannot_wait_for_the_start_that_it_belongs_to(tmp_path: Path) -> None:
    @provider("impatient")
    class Impatient(Recorder):
        app: Application

        async def _start(self) -> None:
            await self.app.start()

    Impatient.log = []
    components = {"recorder": {"a": {"backend": "impatient"}}}
    app = Impatient.app = Application(providers=(Impatient,), workspace_dir=tmp_path, components=components)
    with pytest.raises(NotRunningError, match="Application is starting: its own work cannot wait"):
        await app.start()


async def test_a_slow_start_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("axonx.core.hook_watch.SLOW_START_SECONDS", 0.01)
    app = hanging_app(tmp_path, [], {"a": "start"})
    start = asyncio.create_task(app.start())
    await until(lambda: "Component recorder:a has been starting for more than 0.01 s" in caplog.text)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start


async def test_start_and_close_run_in_one_task_whoever_calls_them(tmp_path: Path) -> None:
    tasks = []

    @provider("scoped")
    class Scoped(BaseComponent):
        component_type = "scoped"

        async def _start(self) -> None:
            tasks.append(asyncio.current_task())
            self.group = asyncio.TaskGroup()
            await self.group.__aenter__()

        async def _close(self) -> None:
            tasks.append(asyncio.current_task())
            await self.group.__aexit__(None, None, None)

    app = Application(
        providers=(Scoped,), workspace_dir=tmp_path, components={"scoped": {"a": {"backend": "scoped"}}}
    )
    await asyncio.create_task(app.start())
    await asyncio.create_task(app.close())
    assert tasks[0] is tasks[1]


def test_a_loop_that_ends_closes_what_was_left_open(tmp_path: Path) -> None:
    log: list[str] = []
    app = recorder_app(tmp_path, log, {"a": {}})
    asyncio.run(app.start())
    assert log == ["start a", "close a"]
    asyncio.run(app.close())
    asyncio.run(app.start())
    assert log == ["start a", "close a"] * 2


async def test_nothing_can_be_called_before_start_and_after_close(tmp_path: Path) -> None:
    async def body(step: BaseStep) -> None: ...

    app = step_app(tmp_path, body)
    for _ in range(2):
        with pytest.raises(NotRunningError, match="Application is not running"):
            await app.run_job("job")
        with pytest.raises(RuntimeError, match="Application is not running"):
            app.stream_job("job")
        async with app:
            assert (await app.run_job("job")).success


async def test_applications_in_one_process_share_nothing(tmp_path: Path) -> None:
    logs: tuple[list[str], list[str]] = ([], [])
    one = recorder_app(tmp_path / "1", logs[0], {"a": {}}, app_name="one")
    two = recorder_app(tmp_path / "2", logs[1], {"a": {}}, app_name="two")
    async with one, two:
        assert one.context.component("recorder", "a") is not two.context.component("recorder", "a")
        await one.close()
        assert two.is_started
    assert logs == (["start a", "close a"], ["start a", "close a"])
    assert "one" in repr(one)
